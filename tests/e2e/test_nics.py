"""Which addresses the hosts of a job give each other, on hosts with bridges, other names, several networks."""

import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from lab import LabTest  # noqa: E402

HOSTS = ["h0", "h1", "h2", "h3"]
SHOW = ["sh", "-c", "echo $HVRUN_RANK/$(hostname)/$HVRUN_ADDRESSES/$NCCL_SOCKET_IFNAME/"
                    "$GLOO_SOCKET_IFNAME/$MASTER_ADDR"]


def number(host):
    return 100 if host == "h0" else int(host[1:])


class Nics(LabTest):
    def ip(self, host, *words):
        done = self.lab.run(host, ["ip", *words])
        self.assertEqual(done.returncode, 0, f"{host}: ip {words}: {done.stderr}")
        return done

    def later(self, *call):
        self.addCleanup(*call)

    def add_link(self, host, name, address=None):
        """An interface whose other end stays on the host: it is up, and leads nowhere."""
        self.ip(host, "link", "add", name, "type", "veth", "peer", "name", name + "-end")
        self.later(self.ip, host, "link", "del", name)
        self.ip(host, "link", "set", name + "-end", "addrgenmode", "none")
        self.ip(host, "link", "set", name + "-end", "up")
        if address:
            self.ip(host, "addr", "add", address, "dev", name, *(["nodad"] if ":" in address else []))
        self.ip(host, "link", "set", name, "up")

    def add_bridge(self, host, name, address, index=None):
        self.add_link(host, "port0")
        place = ["index", str(index)] if index else []
        self.ip(host, "link", "add", "name", name, *place, "type", "bridge", "forward_delay", "0")
        self.later(self.ip, host, "link", "del", name)
        self.ip(host, "link", "set", "port0", "master", name)
        self.ip(host, "addr", "add", address, "dev", name)
        self.ip(host, "link", "set", name, "up")
        self.await_carrier(host, name)

    def await_carrier(self, host, name):
        """A bridge has a carrier only once a port of it forwards, some time after it was set up."""
        deadline = time.monotonic() + 30
        while "LOWER_UP" not in self.ip(host, "link", "show", "dev", name).stdout:
            self.assertLess(time.monotonic(), deadline, f"{host}: {name} stays without a carrier")
            time.sleep(0.05)

    def start(self, *flags, hosts="h0:1,h1:1,h2:1,h3:1", env=None):
        return self.lab.run("h0", [binary("hvrun"), "--no-prefix", "-H", hosts, *flags, *SHOW],
                            env=env, cwd=self.lab.dir)

    def show(self, *flags, **options):
        """{host: (addresses, NCCL, GLOO, MASTER_ADDR)}, and standard error."""
        done = self.start(*flags, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = {}
        for line in done.stdout.splitlines():
            _, host, addresses, nccl, gloo, master = line.split("/")
            seen[host] = (addresses.split(","), nccl, gloo, master)
        self.assertEqual(sorted(seen), HOSTS, done)
        return seen, done.stderr

    def test_equal_bridges_on_all_hosts(self):
        for host in HOSTS:
            self.add_bridge(host, "docker0", "172.17.0.1/16")
        seen, told = self.show("--verbose")
        for host, (addresses, nccl, gloo, master) in seen.items():
            self.assertEqual(addresses[0], f"10.77.0.{number(host)}")
            self.assertFalse([a for a in addresses if a.startswith(("172.17.", "127."))], host)
            self.assertEqual((nccl, gloo), ("=eth0", "eth0"))
            self.assertEqual(master, "10.77.0.100")
        self.assertRegex(told, r"h2: docker0 172\.17\.0\.1 h\d has the same address")
        self.assertRegex(told, r"h2: lo 127\.0\.0\.1 loopback")
        self.assertRegex(told, r"h2: eth0 10\.77\.0\.2 used first")

    def give_eth0_another_number(self, host):
        """So that others can be listed before it: it leaves for the switch, where its number is taken."""
        def read(name):
            with open(self.lab.file(name)) as file:
                return file.read().strip()

        def inside(pid, *words):
            subprocess.run(["nsenter", "-t", pid, "-n", "ip", *words], check=True)
        here, switch = read(f"{host}/pid"), read("switch")
        inside(here, "link", "set", "eth0", "netns", switch, "name", "away")
        inside(switch, "link", "set", "away", "netns", here, "name", "eth0")
        for address in (f"10.77.0.{number(host)}/24", f"fd77::{number(host)}/64"):
            self.ip(host, "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
        self.ip(host, "link", "set", "eth0", "up")

    def test_bridges_first_and_names_that_mean_loopback_and_other_links(self):
        """All that container hosts are known for, at once: no flag is needed, and no time is lost."""
        def seconds():
            begin = time.monotonic()
            seen, _ = self.show()
            return time.monotonic() - begin, seen
        without, _ = seconds()
        with open(self.lab.file("hosts")) as file:
            names = file.read()
        for host in HOSTS:
            own = self.lab.file(f"{host}-hosts")
            self.write(own, f"127.0.1.1 {host}\n{names}")
            self.hide(host, "/etc/hosts", own)
            self.give_eth0_another_number(host)
            self.add_bridge(host, "docker0", "172.17.0.1/16", index=2)
            listed = self.ip(host, "-br", "addr").stdout
            self.assertLess(listed.index("docker0"), listed.index("eth0"))
        for host, name in (("h1", "eno1"), ("h2", "enp3s0")):
            self.later(self.rename, host, name, "eth0")
            self.rename(host, "eth0", name)
        took, seen = seconds()
        for host, (addresses, nccl, _, master) in seen.items():
            self.assertEqual(addresses[0], f"10.77.0.{number(host)}")
            self.assertEqual(nccl, {"h1": "=eno1", "h2": "=enp3s0"}.get(host, "=eth0"))
            self.assertEqual(master, "10.77.0.100")
        print(f"{without:.2f} s without, {took:.2f} s with all that", file=sys.stderr)
        self.assertLess(took, without + 4)  # on a machine of its own: under 1 s more

    def test_names_that_nobody_knows(self):
        """The hosts' own names are in no file, and no name server answers: no time is lost by that."""
        def seconds():
            begin = time.monotonic()
            done = self.start(hosts="h1:1,h2:1,h3:1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(len(done.stdout.splitlines()), 3)
            self.assertNotIn("127.", done.stdout)
            return time.monotonic() - begin
        without = seconds()
        silent = self.lab.file("silent-resolv.conf")
        self.write(silent, "nameserver 10.77.0.3\n")
        for host in HOSTS:
            self.hide(host, "/etc/resolv.conf", silent)
            for words in (["hostname", f"zz-unknown-{host}"],
                          ["nft", "add table inet dns; add chain inet dns out { type filter hook output "
                                  "priority 0; }; add rule inet dns out udp dport 53 drop"]):
                done = self.lab.run(host, words)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.later(self.lab.run, host, ["hostname", host])
            self.later(self.lab.run, host, ["nft", "delete table inet dns"])
        took = seconds()
        print(f"{without:.2f} s with known names, {took:.2f} s without", file=sys.stderr)
        self.assertLess(took, without + 4)  # on a machine of its own: under 1 s more

    def test_cards_are_told_to_nccl_host_by_host(self):
        for host, index in zip(HOSTS, (3, 7, 3, 3)):
            self.add_roce_card(host, index)
        show = ["sh", "-c", "echo $(hostname)/$NCCL_IB_HCA/$NCCL_IB_GID_INDEX"]

        def told(*flags, **options):
            done = self.lab.run("h0", [binary("hvrun"), "--no-prefix", "-H", "h0,h1,h2,h3", *flags, *show],
                                cwd=self.lab.dir, **options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return sorted(done.stdout.split()), done.stderr
        seen, warned = told()
        self.assertEqual(seen, ["h0/=mlx5_0:1/3", "h1/=mlx5_0:1/7", "h2/=mlx5_0:1/3", "h3/=mlx5_0:1/3"])
        self.assertIn("hosts have different GID tables; each gets its own index", warned)
        seen, warned = told(env={"NCCL_IB_HCA": "mlx5_9", "NCCL_IB_GID_INDEX": "3"})
        self.assertEqual(seen, [f"{host}/mlx5_9/3" for host in HOSTS])
        self.assertIn("NCCL_IB_HCA=mlx5_9 (kept) names no card of this host", warned)

    def test_another_name_on_each_host(self):
        for name, other in [("eth0", "eno1"), ("eno1", "eth0")]:
            if other == "eth0":
                self.later(self.rename, "h1", name, other)
            else:
                self.rename("h1", name, other)
        seen, _ = self.show()
        self.assertEqual(seen["h1"][1:3], ("=eno1", "eno1"))
        self.assertEqual(seen["h2"][1:3], ("=eth0", "eth0"))

    def rename(self, host, name, other):
        self.ip(host, "link", "set", name, "down")
        self.ip(host, "link", "set", name, "name", other)
        self.ip(host, "link", "set", other, "up")
        self.ip(host, "addr", "replace", f"fd77::{number(host)}/64", "dev", other, "nodad")

    def add_fast_network(self):
        for host in HOSTS:
            self.add_link(host, f"fast{number(host)}", f"10.99.0.{number(host)}/24")

    def test_a_data_network_apart_from_the_login_network(self):
        self.add_fast_network()
        for flags in (["--nic", "10.99.0.0/24"], ["--nic", "fast"], ["--nic", "^eth0"],
                      ["--network-interfaces", "fast1,fast2,fast3,fast100"]):
            seen, _ = self.show(*flags)
            for host, (addresses, nccl, gloo, master) in seen.items():
                self.assertEqual(addresses[0], f"10.99.0.{number(host)}", flags)
                self.assertFalse([a for a in addresses if a.startswith(("10.77", "fd77"))], flags)
                self.assertEqual((nccl, gloo), (f"=fast{number(host)}", f"fast{number(host)}"))
                self.assertEqual(master, "10.99.0.100")

    def test_an_interface_that_one_host_lacks(self):
        self.add_link("h1", "eth9", "10.98.0.1/24")
        self.add_link("h0", "eth9", "10.98.0.100/24")
        done = self.start("--nic", "eth9", hosts="h0:1,h1:1,h2:1")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"h2")
        self.assertRegex(done.stderr, r"--nic eth9 leaves no interface here; usable are: "
                                      r"eth0 10\.77\.0\.2, eth0 fd77::2")

    def test_a_wrong_word_is_told_before_anything_starts(self):
        done = self.start("--nic", "10.99.0.0/77")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'10.99.0.0/77' is no network", done.stderr)

    def test_ipv6_only(self):
        for host in HOSTS:
            self.ip(host, "addr", "flush", "dev", "eth0", "scope", "global")
            self.later(self.ip, host, "addr", "add", f"10.77.0.{number(host)}/24", "dev", "eth0")
            self.ip(host, "addr", "replace", f"fd77::{number(host)}/64", "dev", "eth0", "nodad")
        seen, _ = self.show()
        for host, (addresses, nccl, _, master) in seen.items():
            self.assertEqual(addresses, [f"fd77::{number(host)}"])
            self.assertEqual((nccl, master), ("=eth0", "fd77::100"))

    def test_link_local_addresses_are_not_given(self):
        for host in HOSTS:
            self.add_link(host, "link1")
        seen, _ = self.show()
        for addresses, *_ in seen.values():
            self.assertFalse([a for a in addresses if a.startswith("fe80")])

    def test_nat_is_told(self):
        self.ip("h1", "addr", "add", "10.77.0.201/24", "dev", "eth0")
        self.later(self.ip, "h1", "addr", "del", "10.77.0.201/24", "dev", "eth0")
        rules = ("add table ip nat; add chain ip nat out { type nat hook postrouting priority 100; }; "
                 "add rule ip nat out oifname eth0 ip daddr 10.77.0.100 tcp sport != 22 "
                 "snat to 10.77.0.201")
        done = self.lab.run("h1", ["nft", rules])
        if done.returncode != 0:
            self.skipTest("this kernel has no NAT: " + done.stderr.strip().splitlines()[0])
        self.later(self.lab.run, "h1", ["nft", "delete table ip nat"])
        _, told = self.show()
        self.assertRegex(told, r"h1 is behind NAT: it calls itself 10\.77\.0\.1, but its connection "
                               r"comes from 10\.77\.0\.201")
        self.assertNotIn("h2 is behind NAT", told)

    def test_what_the_user_set_stays(self):
        seen, told = self.show("--nic", "eth0", env={"NCCL_SOCKET_IFNAME": "=other0"})
        for _, nccl, gloo, _ in seen.values():
            self.assertEqual((nccl, gloo), ("=other0", "eth0"))
        self.assertIn("NCCL_SOCKET_IFNAME==other0 is kept, but hvrun uses eth0", told)

    def test_one_host_is_told_nothing(self):
        done = self.start(hosts="h0:2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            self.assertTrue(line.endswith("/h0////127.0.0.1"), line)


if __name__ == "__main__":
    hvtest.main()
