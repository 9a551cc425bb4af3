"""Where ranks may run: --bind, --report-bindings, --oversubscribe."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

MASK = "import os; print(os.environ['RANK'], *sorted(os.sched_getaffinity(0)))"


def numbers(ranges):
    found = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


class Binding(unittest.TestCase):
    def masks(self, ranks, *options, **popen):
        """({rank: its mask}, {rank: what hvrun has reported})."""
        done = run_hvrun("-np", ranks, "--no-prefix", "--report-bindings", *options, sys.executable,
                         "-c", MASK, **popen)
        self.assertEqual(done.code, 0, done)
        masks = {int(rank): set(map(int, cpus.split()))
                 for rank, cpus in (line.split(" ", 1) for line in done.out.splitlines())}
        reported = re.findall(r"rank (\d+) on \S+: (.*)cpus (\S+) of nodes? ", done.err)
        self.assertEqual(len(reported), ranks, done.err)
        for rank, _, cpus in reported:
            self.assertEqual(numbers(cpus), masks[int(rank)])
        return masks, {int(rank): words for rank, words, _ in reported}

    def test_none_leaves_the_mask_as_it_is(self):
        one = {min(os.sched_getaffinity(0))}
        masks, words = self.masks(2, preexec_fn=lambda: os.sched_setaffinity(0, one))
        self.assertEqual(masks, {0: one, 1: one})
        self.assertEqual(words, {0: "not bound, ", 1: "not bound, "})

    def test_cores_of_their_own(self):
        cpus = os.sched_getaffinity(0)
        if len(cpus) < 2:
            self.skipTest("one processor")
        masks, words = self.masks(2, "--bind", "core")
        self.assertTrue(masks[0] and masks[1])
        self.assertLessEqual(masks[0] | masks[1], cpus)
        self.assertEqual(words, {0: "", 1: ""})
        masks, _ = self.masks(4, "--bind", "core", preexec_fn=lambda: os.sched_setaffinity(0, {min(cpus)}))
        self.assertEqual(list(masks.values()), [{min(cpus)}] * 4)

    def test_node(self):
        masks, _ = self.masks(2, "--bind", "numa")
        self.assertTrue(all(mask <= os.sched_getaffinity(0) for mask in masks.values()))

    def test_more_ranks_than_slots(self):
        done = run_hvrun("-np", 5, "-H", "localhost:1,127.0.0.1:1", "--oversubscribe", "--dry-run", "true")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.count('"local_size": 3'), 3)
        done = run_hvrun("-np", 3, "-H", "localhost:1", "true")
        self.assertEqual(done.code, 2)
        self.assertIn("--oversubscribe", done.err)
        self.assertEqual(run_hvrun("-np", 3, "-H", "localhost:1", "--oversubscribe", "true").code, 0)


if __name__ == "__main__":
    hvtest.main()
