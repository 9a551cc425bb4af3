"""The lab itself: hosts are apart, links break as told, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from lab import LAB, Lab, LabTest  # noqa: E402


def everything_of(lab_dir):
    """Processes of this machine whose environment or command line names the lab's folder."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                command = f.read()
            with open(f"/proc/{entry}/environ", "rb") as f:
                environment = f.read()
        except OSError:
            continue
        if int(entry) != os.getpid() and lab_dir.encode() in command + environment:
            found.append((entry, command))
    return found


def end(process):
    process.kill()
    process.communicate()


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Hosts(LabTest):
    def ssh(self, source, *arguments, user="root"):
        return self.lab.run(source, ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1",
                                     *arguments], user=user)

    def test_hosts_reach_each_other_with_plain_ssh(self):
        for source in ("h0", "h1"):
            for target in ("h2", "10.77.0.3", "fd77::2"):
                answer = self.ssh(source, target, "hostname; cat /proc/sys/kernel/hostname")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                name = "h3" if target.endswith("3") else "h2"
                self.assertEqual(answer.stdout.split(), [name, name])

    def test_hosts_share_nothing_but_the_tree_and_the_lab(self):
        self.lab.run("h1", ["sh", "-c", "touch /tmp/mine /dev/shm/mine /run/mine; "
                                        "echo x > $HOME/common"])
        seen = self.lab.run("h2", ["sh", "-c", "ls /tmp /dev/shm /run; cat $HOME/common; "
                                               f"test -x {LAB} && echo tree"]).stdout.split()
        self.assertNotIn("mine", seen)
        self.assertIn("x", seen)
        self.assertIn("tree", seen)
        devices = self.lab.run("h2", ["ls", "/sys/class/net"]).stdout.split()
        self.assertIn("eth0", devices)
        self.assertNotIn("h1", devices)
        self.assertFalse(os.path.exists("/tmp/mine"))

    def test_exec_passes_status_signals_and_death(self):
        self.assertEqual(self.lab.run("h1", ["sh", "-c", "exit 42"]).returncode, 42)
        self.assertEqual(self.lab.run("h1", ["sh", "-c", "kill -9 $$"]).returncode, 137)
        self.assertEqual(self.lab.run("h1", ["no-such-program"]).returncode, 127)
        trap = self.lab.popen("h1", ["sh", "-c", "trap 'echo got; exit 5' TERM; echo ready; "
                                                 "while :; do sleep 0.05; done"])
        self.assertEqual(trap.stdout.readline(), "ready\n")
        trap.send_signal(signal.SIGTERM)
        self.assertEqual(trap.communicate(timeout=10)[0], "got\n")
        self.assertEqual(trap.returncode, 5)
        sleeper = self.lab.popen("h1", ["sleep", "4321"])
        self.assertEqual(len(self.lab.wait_for_processes("sleep 4321", 1)), 1)
        end(sleeper)
        self.assertEqual(self.lab.wait_for_processes("sleep 4321", 0), [])

    def test_cut_is_silent_and_heals(self):
        flow = self.lab.popen("h0", ["ssh", "h1", "while :; do echo tick; sleep 0.05; done"])
        self.assertEqual(flow.stdout.readline(), "tick\n")
        self.lab.cut("h1")
        failed = self.ssh("h0", "h1", "true")
        self.lab.heal("h1")
        self.assertIn("timed out", failed.stderr)
        self.assertIsNone(flow.poll(), "a cut link must not end connections")
        self.assertEqual(self.ssh("h0", "h1", "true").returncode, 0)
        end(flow)
        self.assertEqual(self.lab.wait_for_processes("tick", 0, host="h1"), [])

    def test_kill_is_silent_and_boot_brings_the_host_back(self):
        flow = self.lab.popen("h0", ["ssh", "h2", "sleep 60"])
        self.assertEqual(len(self.lab.wait_for_processes("sleep 60", 1, host="h2")), 1)
        self.lab.kill("h2")
        time.sleep(0.3)
        self.assertIsNone(flow.poll(), "a dead host must not say goodbye")
        self.lab.boot("h2")
        self.assertEqual(self.ssh("h0", "h2", "hostname").stdout, "h2\n")
        end(flow)

    def test_firewall_lets_through_what_is_named(self):
        self.lab.sshd("h3", 31000)
        self.lab.firewall("h3", 22, "31001-31015")
        self.assertEqual(self.ssh("h0", "h3", "true").returncode, 0)
        self.assertEqual(self.ssh("h3", "h0", "true").returncode, 0)
        self.assertIn("timed out", self.ssh("h0", "-p", "31000", "h3", "true").stderr)
        self.lab.firewall("h3", "off")
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        self.assertEqual(self.ssh("h0", "-p", "31000", *options, "h3", "true").returncode, 0)

    def test_a_sshd_with_a_setting_and_one_that_serves_once(self):
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        self.lab.sshd("h1", 2201, "ForceCommand=echo forced")
        self.assertEqual(self.ssh("h0", "-p", "2201", *options, "h1", "true").stdout, "forced\n")
        self.lab.sshd("h1", 2202, "--once")
        self.assertEqual(self.ssh("h0", "-p", "2202", *options, "h1", "true").returncode, 0)
        self.assertIn("refused", self.ssh("h0", "-p", "2202", *options, "h1", "true").stderr)

    def test_an_ordinary_user(self):
        self.lab.user("ann")
        me = self.lab.run("h0", ["sh", "-c", "id -un; pwd"], user="ann").stdout.split()
        self.assertEqual(me, ["ann", self.lab.home("ann")])
        self.assertEqual(self.ssh("h0", "h1", "id -un; pwd", user="ann").stdout.split(), me)

    def test_an_alias_is_one_more_name(self):
        self.lab.alias("w.1.test", "h3")
        self.assertEqual(self.ssh("h0", "w.1.test", "hostname").stdout, "h3\n")

    def test_rate_shapes_the_link(self):
        def seconds():
            start = time.monotonic()
            self.lab.run("h0", ["sh", "-c", "head -c 4000000 /dev/zero | ssh h1 'wc -c'"])
            return time.monotonic() - start
        self.lab.rate("h1", "8mbit")
        slow = seconds()
        self.lab.rate("h1", "off")
        self.assertGreater(slow, 3)
        self.assertLess(seconds(), 3)

    def test_capture_sees_what_crosses_the_switch(self):
        record = self.lab.file("record.pcap")
        self.lab.capture(record)
        self.lab.run("h0", ["bash", "-c", "echo visible-in-clear > /dev/udp/10.77.0.2/9"])
        time.sleep(0.2)
        self.lab.capture("stop")
        with open(record, "rb") as f:
            self.assertIn(b"visible-in-clear", f.read())

    def test_a_wrong_request_is_named(self):
        for arguments, word in ((("cut", "h9"), "no host h9"), (("up", "1"), "a lab is up"),
                                (("firewall", "h1", "ssh"), "not a port"),
                                (("user", "bob", "/bin/nosuch"), "no shell")):
            result = subprocess.run([LAB, *arguments], env=self.lab.environment, text=True,
                                    capture_output=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(word, result.stderr)


class Life(unittest.TestCase):
    def test_up_is_quick_and_down_leaves_nothing(self):
        start = time.monotonic()
        lab = Lab(3)
        took = time.monotonic() - start
        sleeper = lab.popen("h1", ["setsid", "sleep", "60"])
        lab.down()
        end(sleeper)
        self.assertLess(took, 5)
        self.assertFalse(os.path.exists(lab.dir))
        self.assertTrue(wait_until(lambda: not everything_of(lab.dir), 5), everything_of(lab.dir))

    def test_two_labs_do_not_meet(self):
        first, second = Lab(1), Lab(1)
        try:
            first.cut("h1")
            self.assertEqual(second.run("h0", ["ssh", "h1", "hostname"]).stdout, "h1\n")
        finally:
            first.down()
            self.assertEqual(second.run("h0", ["ssh", "h1", "hostname"]).stdout, "h1\n")
            second.down()

    def test_it_ends_when_its_test_is_killed(self):
        Lab(0).down()  # skips where no lab can run
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from lab import Lab; import time; "
                "lab = Lab(1); p = lab.popen('h1', ['sleep', '60']); print(lab.dir, flush=True); "
                "time.sleep(60)")
        test = subprocess.Popen([sys.executable, "-c", code, os.path.dirname(hvtest.__file__)],
                                stdout=subprocess.PIPE, text=True)
        lab_dir = test.stdout.readline().strip()
        self.assertTrue(os.path.exists(lab_dir))
        test.kill()
        test.communicate()
        self.assertTrue(wait_until(lambda: not os.path.exists(lab_dir), 10))
        self.assertTrue(wait_until(lambda: not everything_of(lab_dir), 5), everything_of(lab_dir))

    def test_it_ends_when_its_keeper_is_killed(self):
        lab = Lab(1)
        with open(lab.file("keeper")) as f:
            os.kill(int(f.read()), signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not everything_of(lab.dir), 10), everything_of(lab.dir))
        lab.lab("up", "0")  # takes the place of what the dead one left
        lab.down()
        self.assertFalse(os.path.exists(lab.dir))


if __name__ == "__main__":
    hvtest.main()
