"""Ranks that do not come along: who is missing, what became of them, what they did last."""

import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

ODD = hvtest.binary("odd_ranks")


def with_times(check, shutdown=0):
    return dict(os.environ, HVRUN_STALL_CHECK_TIME=str(check), HVRUN_STALL_SHUTDOWN_TIME=str(shutdown))


class Stalls(unittest.TestCase):
    def run_odd(self, what, rank, ranks=4, check=1, shutdown=2):
        return hvtest.run_hvrun("-np", ranks, "--grace", "1", ODD, what, rank, timeout=60,
                                env=with_times(check, shutdown))

    def expect_stall(self, done, *texts):
        """A warning, then the end with that as its cause, which every rank has, too."""
        self.assertEqual(done.code, 77, done)
        self.assertLess(done.seconds, 20, done)
        for text in texts:
            self.assertRegex(done.err, text)
        warning = done.err.index("stalled: ")
        block = done.err[done.err.rindex("hvrun: ended after a stall of 2 s"):]
        self.assertLess(warning, done.err.rindex("hvrun: ended"))
        self.assertIn("HVRUN_STALL_SHUTDOWN_TIME", block)
        for text in texts:
            self.assertRegex(block, text)
        said = set(re.findall(r"rank \d: (ended after a stall.*)", done.err))
        self.assertEqual(len(said), 1, done)

    def test_a_rank_that_is_elsewhere(self):
        done = self.run_odd("sleep", 3)
        self.expect_stall(done, r"allreduce 'g17' \(float32, 3.9 KiB\) has waited \d+\.\d s",
                          "ranks 0-2 have submitted it, rank 3 has not",
                          r"rank 3 on localhost \(pid \d+\) sleeps or waits elsewhere; "
                          r"last submitted allreduce 'g16' \d+\.\d s ago")

    def test_a_frozen_rank(self):
        self.expect_stall(self.run_odd("stop", 2),
                          r"rank 2 on localhost \(pid \d+\) is stopped \(by SIGSTOP")

    def test_rank_0_frozen(self):
        self.expect_stall(self.run_odd("stop", 0), "ranks 1-3 have submitted it, rank 0 has not",
                          r"rank 0 on localhost \(pid \d+\) is stopped \(by SIGSTOP")

    def test_ranks_that_wait_for_each_other(self):
        self.expect_stall(self.run_odd("order", 1, ranks=2),
                          r"rank \d on localhost \(pid \d+\) waits itself for allreduce '[gh]17'")

    def test_code_of_one_rank(self):
        self.expect_stall(self.run_odd("extra", 0, ranks=3),
                          "only rank 0 has submitted broadcast 'extra'.*checkpoint")

    def start(self, *arguments, **options):
        """A job of odd_ranks, and a function that reads what it has told so far."""
        log = tempfile.TemporaryFile()
        self.addCleanup(log.close)
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 3, "--grace", "1", ODD, *arguments,
                         stderr=log, **options)
        return job, lambda: os.pread(log.fileno(), 1 << 20, 0).decode()

    def interrupt(self, job, text):
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.finish(30)[0], 130, text())
        job.expect_gone()

    def test_a_warning_only(self):
        job, text = self.start("sleep", 1, env=with_times(0.5))
        hvtest.wait_until(lambda: text().count("stalled: ") >= 2, 30, "two warnings")
        self.assertIsNone(job.process.poll())
        self.interrupt(job, text)
        # Once for all ranks each time, not once for each.
        self.assertLess(text().count("stalled: "), 3 * len(set(re.findall(r"waited (\d+)", text()))))

    def test_on_request(self):
        job, text = self.start("sleep", 1)
        job.find("odd_ranks", count=3)

        def answered():
            job.process.send_signal(signal.SIGQUIT)
            time.sleep(0.5)
            return re.search(r"3 ranks, operations finished: \d+", text())
        hvtest.wait_until(answered, 30, "the answer")
        for rank in range(3):
            self.assertRegex(text(), rf"rank {rank} on localhost \(pid \d+\) ")
        self.interrupt(job, text)

    def test_switched_off(self):
        env = dict(with_times(0.2, 0.4), HVRUN_STALL_CHECK_DISABLE="1")
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "--grace", "1", ODD, "sleep", 1, env=env)
        time.sleep(2)
        self.assertIsNone(job.process.poll())
        job.process.send_signal(signal.SIGINT)
        code, _, err = job.finish(30)
        self.assertEqual((code, err.count(b"stalled")), (130, 0), err)

    def test_init_with_an_absentee(self):
        env = dict(os.environ, HVRUN_START_TIMEOUT="2")
        done = hvtest.run_hvrun("-np", 3, "--grace", "1", ODD, "late", 1, env=env)
        self.assertEqual(done.code, 1, done)
        self.assertIn("1 (never called init)", done.err)


class Leaving(unittest.TestCase):
    def test_in_any_order_at_any_time(self):
        for _ in range(hvtest.repeats(200, usual=5)):
            done = hvtest.run_hvrun("-np", 4, ODD, "leave", -1)
            self.assertEqual((done.code, done.err), (0, ""), done)


class Failures(unittest.TestCase):
    """The flight recorders of all ranks, in the closing block."""

    def test_an_exit_between_operations(self):
        done = hvtest.run_hvrun("-np", 3, ODD, "exit", 1)
        self.assertEqual(done.code, 3, done)
        block = done.err[done.err.rindex("hvrun: rank 1"):]
        self.assertRegex(block, r"allreduce 'g17' .* ranks 0,2 have submitted it, rank 1 has not")
        self.assertRegex(block, r"rank 1 on localhost \(pid \d+\) has ended; last submitted "
                                r"allreduce 'g16'")

    def test_a_kill_in_the_middle(self):
        for _ in range(hvtest.repeats(20)):
            job = hvtest.Job(hvtest.binary("hvrun"), "-np", 3, ODD, "steps", 0)
            pids = job.find("odd_ranks", count=3)
            self.assertIn(b"going", job.process.stdout.readline())
            os.kill(sorted(pids)[1], signal.SIGKILL)
            code, _, err = job.finish(30)
            job.expect_gone()
            text = err.decode()
            self.assertEqual(code, 137, text)
            block = text[text.rindex("hvrun: rank"):]
            self.assertRegex(block, r"allreduce 'g\d+'", text)
            self.assertRegex(block, r"rank \d on localhost \(pid \d+\) has ended; last submitted "
                                    r"allreduce 'g\d+'")

    def test_programs_without_hv_say_nothing_of_it(self):
        done = hvtest.run_hvrun("-np", 2, "sh", "-c", "exit 5")
        self.assertEqual(done.code, 5, done)
        self.assertNotIn("submitted", done.err)


if __name__ == "__main__":
    hvtest.main()
