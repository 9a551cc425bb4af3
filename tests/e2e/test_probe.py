"""hvrun --probe and --preflight on hosts with equal links, a slow one, firewalls, quotas and cards."""

import json
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from lab import LabTest  # noqa: E402

HOSTS = [f"h{i}" for i in range(1, 9)]
ALL = ",".join(HOSTS)


class Probe(LabTest):
    HOSTS = 8

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for host in HOSTS:
            cls.lab.rate(host, "200mbit")

    def probe(self, *flags, hosts=ALL, code=0):
        """The JSON of one probe."""
        done = self.hvrun("--probe", "--json", "-H", hosts, *flags)
        self.assertEqual(done.code, code, done)
        self.assertEqual(done.err, "")
        return json.loads(done.out)

    def figure(self, report, host, name):
        figures = next(h for h in report["hosts"] if h["host"] == host)["figures"]
        return next(f for f in figures if f["name"] == name)

    def test_equal_hosts_are_not_named(self):
        for _ in range(hvtest.repeats(10, usual=2)):
            report = self.probe()
            self.assertEqual((report["verdict"], report["outliers"]), ("pass", []), report)
            self.assertEqual([h["host"] for h in report["hosts"]], HOSTS)
            self.assertEqual(len(report["pairs"]), 8)
            for host in HOSTS:
                for name in ("bandwidth out", "bandwidth in"):
                    self.assertLess(self.figure(report, host, name)["number"], 260, report)

    def test_one_slow_link_is_named(self):
        self.lab.rate("h5", "20mbit")
        self.addCleanup(self.lab.rate, "h5", "200mbit")
        report = self.probe(code=76)
        self.assertEqual((report["verdict"], report["outliers"]), ("fail", ["h5"]), report)
        self.assertEqual(report["hosts"][0]["host"], "h5")
        figure = self.figure(report, "h5", "bandwidth out")
        self.assertLess(figure["number"], 60)
        self.assertIn("ethtool eth0", figure["remedy"])

    def test_text_puts_the_odd_one_first(self):
        self.lab.rate("h2", "20mbit")
        self.addCleanup(self.lab.rate, "h2", "200mbit")
        done = self.hvrun("--probe", "-H", "h1,h2,h3")
        self.assertEqual(done.code, 76, done)
        lines = done.out.splitlines()
        self.assertEqual(lines[0], "probe of 3 hosts: fail; look at h2")
        table = lines.index(next(line for line in lines if line.startswith("host ")))
        self.assertTrue(lines[table + 1].startswith("h2 "), done.out)
        self.assertNotIn("\033", done.out)

    def test_a_late_host_is_named(self):
        def tc(*words):
            done = self.lab.run("h3", ["tc", "qdisc", *words])
            if "kind is unknown" in done.stderr:
                self.skipTest("this kernel cannot delay packets: no netem")
            self.assertEqual(done.returncode, 0, done.stderr)
        tc("replace", "dev", "eth0", "root", "netem", "delay", "30ms")
        self.addCleanup(self.lab.rate, "h3", "200mbit")
        report = self.probe(code=76)
        self.assertEqual(self.figure(report, "h3", "latency")["verdict"], "fail")
        self.assertEqual(report["outliers"][0], "h3")

    def test_a_firewall_is_found(self):
        self.lab.firewall("h4", "22")
        self.addCleanup(self.lab.firewall, "h4", "off")
        done = self.hvrun("--probe", "-H", "h1,h2,h3,h4")
        self.assertEqual(done.code, 76, done)
        self.assertRegex(done.out, r"probe of 4 hosts: fail; look at h4\n")
        self.assertRegex(done.out, r"h1 → h4: 10\.77\.0\.4:\d+ \(no answer within")
        self.assertRegex(done.out, r"\n  h1    [·■▪!] [·■▪!] ×\n")

    def test_a_host_that_is_not_there(self):
        report = self.probe("--start-timeout", "10", hosts="h1,h2,nowhere", code=76)
        self.assertEqual(report["outliers"], ["nowhere"])
        self.assertIn("name lookup", self.figure(report, "nowhere", "agent")["remedy"])
        self.assertEqual(len(report["pairs"]), 2)  # the others are measured all the same

    def test_a_wish(self):
        report = self.probe("--min-bandwidth", "100M", "--expect", "tcp", hosts="h1,h2")
        self.assertEqual(report["verdict"], "pass", report)
        report = self.probe("--min-bandwidth", "10", "--expect", "ib", hosts="h1,h2", code=76)
        self.assertEqual(report["outliers"], [])
        figure = self.figure(report, "h1", "InfiniBand and RoCE")
        self.assertEqual((figure["verdict"], figure["value"]), ("fail", "none"))
        self.assertEqual(self.figure(report, "h2", "bandwidth in")["verdict"], "fail")

    def test_cards_and_their_bandwidth(self):
        programs = self.lab.file("perftest")
        self.write(os.path.join(programs, "ib_write_bw"),
                   "#!/bin/sh\necho \"$@\" >> $0.$(hostname)\n"
                   "echo ' #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]'\n"
                   "echo ' 65536 1000 0.00 187.6 0.37'\n", 0o755)
        for host, index in (("h1", 3), ("h2", 5), ("h3", 3)):
            self.add_roce_card(host, index)
            self.hide(host, "/usr/local/bin", programs)
        report = self.probe("--expect", "ib", hosts="h1,h2")
        for host, index in (("h1", 3), ("h2", 5)):
            self.assertEqual(self.figure(report, host, "InfiniBand and RoCE")["value"], "mlx5_0:1")
            self.assertEqual(self.figure(report, host, "InfiniBand bandwidth")["number"], 187.6)
            with open(os.path.join(programs, f"ib_write_bw.{host}")) as calls:
                self.assertIn(f"-d mlx5_0 -i 1 -p 18515 -b -D 2 --report_gbits -x {index}", calls.read())
        report = self.probe(hosts="h1,h3,h4")  # h4 has none
        self.assertEqual((report["verdict"], report["outliers"]), ("warn", ["h4"]), report)
        self.assertEqual(self.figure(report, "h4", "InfiniBand bandwidth")["value"], "not measured")

    def test_ctrl_c(self):
        process = self.lab.popen("h0", [binary("hvrun"), "--probe", "-H", ALL])
        hvtest.wait_until(lambda: self.lab.processes("hvagent", "h1"), 20, "an agent on h1")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        process.communicate()
        self.expect_quiet(5)

    def test_one_host(self):
        report = self.probe(hosts="h1")
        self.assertEqual((report["verdict"], report["pairs"]), ("pass", []))
        self.assertGreater(self.figure(report, "h1", "memory bandwidth")["number"], 0)

    def test_an_ordinary_user(self):
        self.lab.user("eve")
        done = self.hvrun("--probe", "--json", "-H", "h1,h2", user="eve", cwd=self.lab.home("eve"))
        self.assertEqual(done.code, 0, done)
        self.assertEqual(json.loads(done.out)["verdict"], "pass")

    def test_the_terminal_shows_colours(self):
        done = self.hvrun("-qec", f"{binary('hvrun')} --probe -H h1,h2", "/dev/null", program="script")
        self.assertEqual(done.code, 0, done)
        self.assertIn("\033[32m", done.out)

    def test_preflight(self):
        done = self.hvrun("--preflight", "-H", ALL, "--no-prefix", "echo", "ran")
        self.assertEqual((done.code, done.out.count("ran")), (0, 8), done)
        self.assertEqual(done.err, "")
        self.lab.firewall("h4", "22")
        self.addCleanup(self.lab.firewall, "h4", "off")
        done = self.hvrun("--preflight", "-H", ALL, "--no-prefix", "echo", "ran")
        self.assertEqual((done.code, done.out), (76, ""), done)
        self.assertIn("look at h4", done.err)

    def test_preflight_is_quick(self):
        """Under a second for 8 hosts on a machine of their own; here all of them share a few cores."""
        def seconds(*flags):
            begin = time.monotonic()
            self.assertEqual(self.hvrun(*flags, "-H", ALL, "true").code, 0)
            return time.monotonic() - begin
        without = min(seconds() for _ in range(2))
        extra = min(seconds("--preflight") for _ in range(2)) - without
        print(f"--preflight takes {extra:.2f} s more for 8 hosts", file=sys.stderr)
        self.assertLess(extra, 5)


class ManyHosts(LabTest):
    HOSTS = hvtest.repeats(64, usual=12)

    def test_all_are_probed_within_a_minute(self):
        names = [f"h{i}" for i in range(1, self.HOSTS + 1)]
        done = self.hvrun("--probe", "--json", "-H", ",".join(names), timeout=120)
        self.assertIn(done.code, (0, 76), done)  # unshaped links of a busy machine are not alike
        self.assertEqual(done.err, "")
        report = json.loads(done.out)
        self.assertEqual(sorted(host["host"] for host in report["hosts"]), sorted(names))
        for host in report["hosts"]:
            reach = next(figure for figure in host["figures"] if figure["name"] == "reach")
            self.assertEqual(reach["value"], f"{self.HOSTS - 1} of {self.HOSTS - 1} hosts", host)
        self.assertEqual(len(report["pairs"]), self.HOSTS)  # two rounds
        print(f"--probe of {self.HOSTS} hosts took {done.seconds:.1f} s", file=sys.stderr)
        self.assertLess(done.seconds, 60)


if __name__ == "__main__":
    hvtest.main()
