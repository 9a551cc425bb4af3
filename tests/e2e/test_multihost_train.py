"""Training and collectives over three hosts: the same loss as on one, exact sums, and a clear end."""

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

THREE = ("-np", 6, "-H", "h1:2,h2:2,h3:2")
UNEVEN = ("-np", 6, "-H", "h2:3,h0:1,h1:2")
TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64")


class MultihostTrain(LabTest):
    HOSTS = 3

    def train(self, *where):
        path = self.lab.file("train.json")
        done = self.hvrun(*where, binary("train"), "--json", path, "--epochs", 6, timeout=120)
        self.assertEqual(done.code, 0, done)
        with open(path, encoding="ascii") as f:
            return json.loads(f.readlines()[-1])

    def test_the_loss_does_not_depend_on_hosts(self):
        alone = self.train("-np", 1)
        for where in (THREE, UNEVEN):
            spread = self.train(*where)
            self.assertEqual(spread["ranks"], 6)
            self.assertLess(abs(spread["loss"] - alone["loss"]) / alone["loss"], 1e-4)

    def bench(self, where, *flags):
        done = self.hvrun(*where, binary("hvbench"), *flags, "--iters", 2, "--warmup", 1)
        self.assertEqual(done.code, 0, f"{flags}: {done}")
        self.assertIn("#wrong", done.out)

    def test_every_type_is_exact(self):
        for i, kind in enumerate(TYPES):
            self.bench((THREE, UNEVEN)[i % 2], "allreduce", "--dtype", kind, "--min-bytes", 8,
                       "--max-bytes", "512K", "--factor", 16, *(["--raw"] if i % 3 == 0 else []))

    def test_every_operation_is_exact_at_odd_sizes(self):
        for where in (THREE, UNEVEN):
            for op in ("allreduce", "broadcast", "allgather"):
                for size in (4, 28, 4095 * 4, 4097 * 4) if op != "allgather" else (4096 * 6 * 4,):
                    self.bench(where, op, "--min-bytes", size, "--max-bytes", size)
        for reduce in ("average", "min", "max", "product"):
            self.bench(THREE, "allreduce", "--reduce", reduce, "--min-bytes", 28, "--max-bytes", "1M",
                       "--factor", 64)

    def start_bench(self):
        job = self.lab.popen("h0", [binary("hvrun"), *map(str, THREE), binary("hvbench"),
                                    "allreduce", "--min-bytes", "8M", "--max-bytes", "8M",
                                    "--iters", "100000"])
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        found = self.lab.wait_for_processes(r"^\S*/hvbench", 6)
        self.assertEqual(len(found), 6)
        time.sleep(1)
        self.assertIsNone(job.poll())
        return job, found

    def expect_failed(self, job, start, *words):
        self.expect_quiet(12 - (time.monotonic() - start), r"hvbench|hvagent|hvrun")
        _, err = job.communicate(timeout=12)
        self.assertGreater(job.returncode, 0, err)
        for word in words:
            self.assertIn(word, err)

    def test_a_rank_dies_within_a_collective(self):
        job, found = self.start_bench()
        victim = next(pid for host, pid, _ in found if host == "h2")
        start = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        self.expect_failed(job, start, "h2", "SIGKILL")
        self.assertEqual(job.returncode, 137)
        self.assertLess(time.monotonic() - start, 8)

    def test_a_host_goes_silent_within_a_collective(self):
        job, _ = self.start_bench()
        start = time.monotonic()
        self.lab.cut("h2")
        try:
            self.expect_failed(job, start, "h2")
        finally:
            self.lab.heal("h2")


if __name__ == "__main__":
    hvtest.main()
