"""hvbench: every operation and type is exact on any number of ranks; table and JSON agree."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
         "bfloat16", "float32", "float64")
OPERATIONS = ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall")
REDUCTIONS = ("sum", "average", "min", "max", "product")
KEYS = {"op", "bytes", "count", "dtype", "reduce", "time_us", "p99_us", "algbw_gbs", "busbw_gbs",
        "wrong", "ranks", "hosts", "algorithm"}
QUICK = ("--iters", "3", "--warmup", "1")


class Hvbench(unittest.TestCase):
    def bench(self, ranks, *flags):
        """(records, lines of the table) of a run that succeeds."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hvbench.json")
            done = run_hvrun("-np", ranks, hvtest.binary("hvbench"), *flags, "--json", path,
                             timeout=120)
            self.assertEqual(done.code, 0, done)
            with open(path, encoding="ascii") as file:
                records = [json.loads(line) for line in file]
        lines = [line.removeprefix("[0]<stdout>:") for line in done.out.splitlines()]
        table = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual(len(table), len(records))
        for record in records:
            self.assertLessEqual(KEYS, record.keys())
            self.assertEqual(record["wrong"], 0, record)
            self.assertEqual(record["ranks"], ranks)
            self.assertEqual(record["hosts"], 1)
        return records, table

    def test_every_operation(self):
        for ranks in (1, 2, 3, 4):
            for op in OPERATIONS + ("barrier",):
                for path in ((), ("--raw",), ("--raw", "--buffer", "alloc")):
                    self.bench(ranks, op, *path, "--max-bytes", "1M", "--factor", "32", *QUICK)

    def test_every_type(self):
        for dtype in TYPES:
            for path in ((), ("--raw",)):
                for op in OPERATIONS:
                    self.bench(3, op, *path, "--dtype", dtype, "--max-bytes", "64K", "--factor",
                               "128", *QUICK)

    def test_every_reduction(self):
        for reduce in REDUCTIONS:
            for dtype in ("int8", "bfloat16", "float32"):
                for path in ((), ("--raw",)):
                    records, _ = self.bench(3, "allreduce", *path, "--reduce", reduce, "--dtype",
                                            dtype, "--min-bytes", "33", "--max-bytes", "8K",
                                            "--factor", "15", *QUICK)
                    self.assertEqual(records[0]["reduce"], reduce)
                    self.assertEqual(records[0]["dtype"], dtype)

    def test_sizes(self):
        records, table = self.bench(2, "allreduce", "--min-bytes", "0", "--max-bytes", "4K",
                                    "--factor", "4", *QUICK)
        self.assertEqual([record["bytes"] for record in records], [0, 0, 4, 16, 64, 256, 1024, 4096])
        self.assertEqual([record["count"] for record in records], [0, 0, 1, 4, 16, 64, 256, 1024])
        self.assertEqual([int(row[0]) for row in table], [record["bytes"] for record in records])
        records, _ = self.bench(3, "allgather", "--min-bytes", "100", "--max-bytes", "100", *QUICK)
        self.assertEqual((records[0]["count"], records[0]["bytes"]), (8, 96))

    def test_bandwidths(self):
        records, _ = self.bench(4, "allreduce", "--raw", "--min-bytes", "1M", "--max-bytes", "1M",
                                *QUICK)
        (record,) = records
        self.assertAlmostEqual(record["algbw_gbs"], 1048576 / record["time_us"] / 1e3)
        self.assertAlmostEqual(record["busbw_gbs"], record["algbw_gbs"] * 1.5)
        self.assertGreaterEqual(record["p99_us"], record["time_us"])
        self.assertNotEqual(record["algorithm"], "")

    def test_many_tensors(self):
        records, _ = self.bench(4, "allreduce", "--tensors", "1000", "--min-bytes", "4",
                                "--max-bytes", "4", *QUICK)
        (record,) = records
        self.assertEqual((record["tensors"], record["count"], record["bytes"]), (1000, 1, 4))
        self.assertAlmostEqual(record["algbw_gbs"], 4000 / record["time_us"] / 1e3)

    def test_model(self):
        records, _ = self.bench(2, "allreduce", "--model", "resnet50", *QUICK)
        step, raw = records
        self.assertEqual((step["tensors"], step["model"]), (161, "resnet50"))
        self.assertEqual((step["bytes"], step["count"]), (raw["bytes"], raw["count"]))
        self.assertEqual((raw["tensors"], raw["count"]), (1, 25557032))

    def test_wrong_flags(self):
        for flags in ([], ["alltoallw"], ["allreduce", "--dtype", "int7"],
                      ["allreduce", "--min-bytes", "1X"], ["allreduce", "--factor", "1"],
                      ["allreduce", "--min-bytes", "8K", "--max-bytes", "4K"],
                      ["allreduce", "--raw", "--tensors", "2"],
                      ["allreduce", "--model", "resnet51"], ["broadcast", "--model", "resnet50"]):
            done = subprocess.run([hvtest.binary("hvbench"), *flags], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, flags)
            self.assertNotEqual(done.stdout + done.stderr, "")


if __name__ == "__main__":
    hvtest.main()
