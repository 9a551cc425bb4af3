"""Ranks that use hv: who ends badly is the cause, everybody else ends soon, goodbyes are no faults."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

LOOP = hvtest.binary("world_loop")
FOR_EVER = 10**9


class World(unittest.TestCase):
    def run_loop(self, *args, ranks=4):
        return hvtest.run_hvrun("-np", ranks, LOOP, *args, timeout=60)

    def expect_cause(self, done, code, rank, text):
        self.assertEqual(done.code, code, done)
        block = done.err[done.err.rindex("hvrun: "):]
        self.assertIn(f"rank {rank} on localhost", block)
        self.assertIn(text, block)
        self.assertLess(done.seconds, 8, done)

    def test_good_job(self):
        for _ in range(hvtest.repeats(50)):
            done = self.run_loop(20)
            self.assertEqual(done.code, 0, done)

    def test_early_goodbye_is_no_fault(self):
        for _ in range(hvtest.repeats(50)):
            done = self.run_loop(1, "quiet", 0, 0)
            self.assertEqual((done.code, done.err), (0, ""), done)

    def test_the_slowest_rank_is_named(self):
        done = self.run_loop(40, "slow", 2, 0)
        self.assertEqual((done.code, done.err), (0, ""), done)  # a short job is not worth a word
        with tempfile.NamedTemporaryFile() as report:
            done = hvtest.run_hvrun("--verbose", "--slowest-every", 1, "--report", report.name, "-np", 4,
                                    LOOP, 100, "slow", 2, 0, timeout=60)
            story = json.load(report)
        self.assertEqual(done.code, 0, done)
        self.assertRegex(done.err, r"rank 2 on localhost is waited for most: the other ranks "
                                   r"have waited \d+\.\d s for it in the last \d+\.\d s")
        self.assertRegex(done.err, r"\nhvrun: rank 2 on localhost was waited for most: the other ranks "
                                   r"waited \d+\.\d s for it, of \d+\.\d s")
        self.assertEqual(story["most_waited_for"]["rank"], 2, story)
        ranks = story["hosts"][0]["ranks"]
        self.assertEqual([rank["operations"] for rank in ranks], [100] * 4)
        self.assertEqual(min(ranks, key=lambda rank: rank["waited_s"])["rank"], 2)

    def test_failure_in_the_loop(self):
        for _ in range(hvtest.repeats(100, usual=5)):
            self.expect_cause(self.run_loop(FOR_EVER, "exit3", 2, 50), 3, 2, "exited with code 3")

    def test_kill_in_the_loop(self):
        for _ in range(hvtest.repeats(100, usual=5)):
            self.expect_cause(self.run_loop(FOR_EVER, "kill", 1, 50), 137, 1, "SIGKILL")

    def test_failure_before_init(self):
        self.expect_cause(self.run_loop(FOR_EVER, "exit3", 1, -1), 3, 1, "exited with code 3")

    def test_exit_zero_before_init(self):
        self.expect_cause(self.run_loop(FOR_EVER, "exit0", 1, -1), 74, 1, "exited with code 0")

    def test_exit_zero_in_the_loop(self):
        for _ in range(hvtest.repeats(50)):
            self.expect_cause(self.run_loop(FOR_EVER, "exit0", 3, 50), 74, 3, "exited with code 0")


if __name__ == "__main__":
    hvtest.main()
