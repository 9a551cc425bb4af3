"""Signals to hvrun: interrupt, termination, hang-up, user signals, stop and continue."""

import os
import pty
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

LOGGER = """
import signal, sys, time
def log(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if sys.argv[1] == "obey": sys.exit(0)
for number in signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2:
    signal.signal(number, log)
print("ready", flush=True)
while True: time.sleep(0.1)
"""


class Signals(unittest.TestCase):
    def start(self, *options, mode="ignore", **popen):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "--no-prefix", *options, sys.executable,
                         "-c", LOGGER, mode, **popen)
        self.addCleanup(job.kill_all)
        job.find("python", count=2)
        for _ in range(2):
            self.assertEqual(job.process.stdout.readline(), b"ready\n")
        return job

    def test_interrupt_once(self):
        job = self.start("--grace", 2)
        started = time.monotonic()
        os.kill(job.pid, signal.SIGINT)
        code, out, err = job.finish(10)
        took = time.monotonic() - started
        self.assertEqual(code, 130, err)
        self.assertEqual(out.split(b"\n").count(b"got SIGINT"), 2)
        self.assertEqual(out.split(b"\n").count(b"got SIGTERM"), 2)
        self.assertTrue(1.5 < took < 4, took)
        self.assertIn(b"stopped by SIGINT", err)
        job.expect_gone(1)

    def test_interrupt_obeyed(self):
        job = self.start(mode="obey")
        os.kill(job.pid, signal.SIGINT)
        code, _, err = job.finish(3)
        self.assertEqual(code, 130, err)

    def test_interrupt_twice(self):
        job = self.start("--grace", 60)
        os.kill(job.pid, signal.SIGINT)
        self.assertEqual(job.process.stdout.readline(), b"got SIGINT\n")
        started = time.monotonic()
        os.kill(job.pid, signal.SIGINT)
        code, _, err = job.finish(10)
        self.assertLess(time.monotonic() - started, 8)
        self.assertEqual(code, 130, err)
        job.expect_gone(1)

    def test_termination_reaches_the_main_process_only(self):
        script = "sh -c 'trap \"echo child\" TERM; while :; do sleep 0.1; done' & " \
                 "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "--no-prefix", "sh", "-c", script)
        self.addCleanup(job.kill_all)
        self.assertEqual(job.process.stdout.readline(), b"ready\n")
        os.kill(job.pid, signal.SIGTERM)
        code, out, err = job.finish(5)
        self.assertEqual((code, out), (143, b"saved\n"), err)
        job.expect_gone(1)

    def test_user_signals_are_forwarded_once(self):
        job = self.start()
        os.kill(job.pid, signal.SIGUSR1)
        for _ in range(2):
            self.assertEqual(job.process.stdout.readline(), b"got SIGUSR1\n")
        os.kill(job.pid, signal.SIGUSR2)
        for _ in range(2):
            self.assertEqual(job.process.stdout.readline(), b"got SIGUSR2\n")
        os.kill(job.pid, signal.SIGTERM)
        for _ in range(2):
            self.assertEqual(job.process.stdout.readline(), b"got SIGTERM\n")
        os.kill(job.pid, signal.SIGTERM)
        _, out, _ = job.finish(5)
        self.assertNotIn(b"USR", out)

    def test_hang_up(self):
        job = self.start(mode="obey")
        os.kill(job.pid, signal.SIGHUP)
        self.assertEqual(job.finish(5)[0], 129)

    def test_nohup(self):
        script = "trap '' HUP; exec \"$@\""
        job = hvtest.Job("sh", "-c", script, "sh", hvtest.binary("hvrun"), "-np", 1, "--no-prefix",
                         "sh", "-c", "kill -HUP $$; echo alive; sleep 1; echo done")
        self.assertEqual(job.process.stdout.readline(), b"alive\n")
        os.kill(job.pid, signal.SIGHUP)
        code, out, err = job.finish(5)
        self.assertEqual((code, out), (0, b"done\n"), err)

    def test_stop_and_continue(self):
        script = "echo ready; i=0; while [ $i -lt 30 ]; do sleep 0.1; i=$((i+1)); done; echo done"
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "--no-prefix", "--lost-after", 3, "sh", "-c",
                         script)
        self.addCleanup(job.kill_all)
        self.assertEqual(job.process.stdout.readline(), b"ready\n")
        os.kill(job.pid, signal.SIGTSTP)

        def state(pid):
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]
        rank = job.find("sh -c")[0]
        hvtest.wait_until(lambda: state(job.pid) == "T" and state(rank) == "T", 20, "stopped")
        time.sleep(5)  # longer than lost-after
        os.kill(job.pid, signal.SIGCONT)
        code, out, err = job.finish(30)
        self.assertEqual((code, out), (0, b"done\n"), err)

    def test_terminal_interrupt_reaches_the_ranks_once(self):
        pid, master = pty.fork()
        if pid == 0:
            os.execv(hvtest.binary("hvrun"), ["hvrun", "-np", "1", "--no-prefix", sys.executable, "-c",
                                              LOGGER, "obey"])
        seen = b""
        while b"ready" not in seen:
            seen += os.read(master, 1000)
        os.write(master, b"\x03")
        try:
            while True:
                seen += os.read(master, 1000)
        except OSError:
            pass
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)
        self.assertEqual(seen.count(b"got SIGINT"), 1, seen)

    def test_closing_the_terminal_ends_the_job(self):
        mark = hvtest.uuid.uuid4().hex
        pid, master = pty.fork()
        if pid == 0:
            os.environ[hvtest.MARK] = mark
            os.execv(hvtest.binary("hvrun"), ["hvrun", "-np", "2", "sleep", "1004"])
        hvtest.wait_until(lambda: len(hvtest.processes(mark)) == 5, 10, "two ranks")
        os.close(master)
        hvtest.wait_until(lambda: len(hvtest.processes(mark)) == 0, 8, "the end")
        os.waitpid(pid, 0)


if __name__ == "__main__":
    hvtest.main()
