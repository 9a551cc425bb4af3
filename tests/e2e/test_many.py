"""Ends and starts, many times over and many at once."""

import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402


class ManyTimes(unittest.TestCase):
    def test_one_rank_exits_3_at_once(self):
        for run in range(hvtest.repeats(500, usual=15)):
            done = run_hvrun("-np", 3, "sh", "-c", "[ $RANK != 1 ] || exit 3; sleep 60")
            self.assertEqual(done.code, 3, f"run {run}: {done}")

    def test_the_first_of_two_failures_counts(self):
        for run in range(hvtest.repeats(50, usual=3)):
            done = run_hvrun("-np", 3, "sh", "-c",
                             "case $RANK in 0) exec sleep 60;; 1) exit 3;; 2) sleep 0.5; exit 5;; esac")
            self.assertEqual(done.code, 3, f"run {run}: {done}")

    def test_random_order_of_finishing(self):
        order = random.Random(1)
        for run in range(hvtest.repeats(200, usual=8)):
            naps = " ".join(f"{order.uniform(0, 0.1):.3f}" for _ in range(4))
            how = order.choice(["leave", "go"])
            program = ([hvtest.binary("world_loop"), "3"] if how == "leave" else ["true"])
            done = run_hvrun("-np", 4, "sh", "-c", f"set -- {naps} \"$@\"; eval sleep \\${{$((RANK + 1))}}; "
                             "shift 4; exec \"$@\"", "sh", *program)
            self.assertEqual(done.code, 0, f"run {run}: {done}")


class ManyAtOnce(unittest.TestCase):
    def test_twenty_jobs_on_one_machine(self):
        jobs = [hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "--start-timeout", 120, "--lost-after", 60,
                           hvtest.binary("world_loop"), 5) for _ in range(20)]
        ends = [job.finish(timeout=150) for job in jobs]
        self.assertEqual([code for code, _, _ in ends], [0] * 20, ends)
        for job in jobs:
            job.expect_gone(2)


if __name__ == "__main__":
    hvtest.main()
