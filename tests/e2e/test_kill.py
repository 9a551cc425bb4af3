"""Kills parts of a local job: whatever dies, nothing of the job is left, and hvrun names the cause."""

import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

# A rank that leaves a grandchild in a session of its own, a daemon (its parent gone), and ignores TERM.
RANK = "trap '' TERM; setsid sleep 1001 & (setsid sh -c 'sleep 1002 & exit 0' &); sleep 1003"
BOUND = 12  # lost-after + grace + 2 s


class Kill(unittest.TestCase):
    def start(self, *options):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, *options, "sh", "-c", RANK)
        self.addCleanup(job.kill_all)
        for seconds in 1001, 1002, 1003:
            job.find(f"sleep {seconds}", count=2)
        return job

    def repeat(self, kill):
        for _ in range(hvtest.repeats(20)):
            job = self.start()
            kill(job)
            job.expect_gone(BOUND)
            yield job.finish(1)

    def test_rank(self):
        def kill(job):
            self.victim = job.find("sh -c trap")[0]
            os.kill(self.victim, signal.SIGKILL)
        for code, _, err in self.repeat(kill):
            self.assertEqual(code, 137, err)
            self.assertRegex(err.decode(), rf"rank \d on localhost \(pid {self.victim}\) was killed by "
                                           r"signal 9 \(SIGKILL\)")

    def test_agent(self):
        def kill(job):
            os.kill(job.agent_and_keeper()[0], signal.SIGKILL)
        for code, _, err in self.repeat(kill):
            self.assertEqual(code, 73, err)
            self.assertIn(b"host localhost is lost: hvagent was killed by SIGKILL", err)

    def test_keeper(self):
        def kill(job):
            os.kill(job.agent_and_keeper()[1], signal.SIGKILL)
        for code, _, err in self.repeat(kill):
            self.assertEqual(code, 73, err)
            self.assertIn(b"host localhost is lost: the keeper", err)

    def test_hvrun(self):
        def kill(job):
            os.kill(job.pid, signal.SIGKILL)
        for code, _, _ in self.repeat(kill):
            self.assertEqual(code, -9)

    def test_agent_and_keeper_at_once(self):
        for _ in range(hvtest.repeats(20)):
            job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "sleep", "1003")
            self.addCleanup(job.kill_all)
            job.find("sleep 1003", count=2)
            agent, keeper = job.agent_and_keeper()
            os.kill(keeper, signal.SIGSTOP)  # so that it cannot act between the two
            os.kill(agent, signal.SIGKILL)
            os.kill(keeper, signal.SIGKILL)
            job.expect_gone(BOUND)
            self.assertEqual(job.finish(1)[0], 73)

    def test_stopped_agent(self):
        job = self.start("--lost-after", 2, "--grace", 1)
        os.kill(job.agent_and_keeper()[0], signal.SIGSTOP)
        started = time.monotonic()
        job.expect_gone(8)
        self.assertGreater(time.monotonic() - started, 1)
        code, _, err = job.finish(1)
        self.assertEqual(code, 73, err)
        self.assertRegex(err.decode(), r"no sign of life for \d s \(last heartbeat at \d\d:\d\d:\d\d\)")

    def test_stopped_hvrun(self):
        job = self.start("--lost-after", 2, "--grace", 1)
        os.kill(job.pid, signal.SIGSTOP)
        hvtest.wait_until(lambda: list(job.processes()) == [job.pid], 8, "the end of agent and ranks")
        os.kill(job.pid, signal.SIGCONT)
        self.assertEqual(job.finish(5)[0], 73)

    def test_hvrun_killed_while_starting(self):
        for delay in [0.001 * i for i in range(0, 30, 3)]:
            job = hvtest.Job(hvtest.binary("hvrun"), "-np", 4, "sleep", "1003")
            time.sleep(delay)
            os.kill(job.pid, signal.SIGKILL)
            job.expect_gone(BOUND)
            job.finish(1)

    def test_leftovers_of_a_good_job(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "sh", "-c",
                         "setsid sleep 1001 & (setsid sh -c 'sleep 1002 & exit 0' &); sleep 0.1")
        code, _, err = job.finish(10)
        self.assertEqual(code, 0, err)
        job.expect_gone(1)


if __name__ == "__main__":
    hvtest.main()
