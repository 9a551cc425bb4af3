"""Whatever dies or goes silent on three hosts: every process of the job ends everywhere, in time."""

import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from lab import LabTest  # noqa: E402

BOUND = 8  # lost-after 5 + grace 1 + 2
OURS = r"^(\S*/)?(hvrun|hvagent|sleep|sh -c)\b|/proc/self/fd/3"


class HostLoss(LabTest):
    HOSTS = 3

    def setUp(self):
        # A rank with a child in its session and a grandchild in one of its own.
        self.addCleanup(self.end_job)
        self.job = self.lab.popen("h0", [
            binary("hvrun"), "--grace", "1", "-np", "6", "-H", "h1:2,h2:2,h3:2", "sh", "-c",
            "trap '' TERM; setsid sleep 1001 & sleep 1002 & echo ready; wait; wait"])
        for _ in range(6):
            self.assertIn("ready", self.job.stdout.readline())
        self.assertEqual(len(self.lab.wait_for_processes("^sleep 100[12]", 12)), 12)

    def end_job(self):
        if self.job.poll() is None:
            self.job.kill()
        self.job.communicate()

    def one(self, pattern, host):
        found = self.lab.processes(pattern, host)
        self.assertTrue(found, f"no {pattern} on {host}: {self.lab.processes()}")
        return [pid for _, pid, _ in found]

    def agents(self, host):
        """(keeper, agent), as seen from outside."""
        pids = self.one(r"hvagent$", host)
        parents = {}
        for pid in pids:
            with open(f"/proc/{pid}/stat") as f:
                parents[pid] = int(f.read().rpartition(")")[2].split()[1])
        agent = next(p for p in pids if parents[p] in pids)
        return parents[agent], agent

    def expect_end(self, start, *words):
        self.expect_quiet(BOUND - (time.monotonic() - start), OURS)
        out, err = self.job.communicate(timeout=BOUND)
        self.assertLess(time.monotonic() - start, BOUND + 1)
        self.assertGreater(self.job.returncode, 0, err)
        for word in words:
            self.assertIn(word, err)
        return err

    def repeat(self, case):
        for i in range(hvtest.repeats(20, 1)):
            if i:
                self.end_job()
                self.setUp()
            case()

    def test_a_rank_is_killed(self):
        def case():
            victim = self.one("trap", "h2")[0]
            start = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            self.expect_end(start, "h2", "SIGKILL", "rank ")
            self.assertEqual(self.job.returncode, 137)
        self.repeat(case)

    def test_an_agent_is_killed(self):
        def case():
            start = time.monotonic()
            os.kill(self.agents("h2")[1], signal.SIGKILL)
            self.expect_end(start, "h2")
        self.repeat(case)

    def test_a_keeper_is_killed(self):
        def case():
            start = time.monotonic()
            os.kill(self.agents("h3")[0], signal.SIGKILL)
            self.expect_end(start, "h3")
        self.repeat(case)

    def test_an_ssh_connection_is_killed(self):
        def case():
            connection = self.sshd_of("h1")
            start = time.monotonic()
            for pid in connection:
                os.kill(pid, signal.SIGKILL)
            self.expect_end(start, "h1")
        self.repeat(case)

    def sshd_of(self, host):
        """The sshd processes that serve a connection on this host."""
        with open(self.lab.file(host, "pid")) as f:
            namespace = os.readlink(f"/proc/{f.read()}/ns/pid")
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    command = f.read()
                if os.readlink(f"/proc/{entry}/ns/pid") == namespace and \
                        re.match(rb"sshd: root@", command):
                    found.append(int(entry))
            except OSError:
                continue
        self.assertTrue(found)
        return found

    def test_hvrun_is_killed(self):
        def case():
            start = time.monotonic()
            self.job.kill()
            self.expect_quiet(BOUND, OURS)
            self.assertLess(time.monotonic() - start, BOUND + 1)
        self.repeat(case)

    def test_a_host_dies(self):
        def case():
            start = time.monotonic()
            self.lab.kill("h2")
            try:
                self.expect_end(start, "h2", "rank")
            finally:
                self.lab.boot("h2")
        self.repeat(case)

    def test_a_link_goes_silent(self):
        def case():
            start = time.monotonic()
            self.lab.cut("h3")
            try:
                self.expect_end(start, "h3", "rank")
            finally:
                self.lab.heal("h3")
        self.repeat(case)

    def test_the_link_of_the_launching_host_goes_silent(self):
        def case():
            start = time.monotonic()
            self.lab.cut("h0")
            try:
                self.expect_end(start, "h1")
            finally:
                self.lab.heal("h0")
        self.repeat(case)

    def test_interrupt_once_and_twice(self):
        start = time.monotonic()
        self.job.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.job.send_signal(signal.SIGINT)  # the ranks ignore TERM: do not wait for the grace time
        self.expect_end(start)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(self.job.returncode, 130)


if __name__ == "__main__":
    hvtest.main()
