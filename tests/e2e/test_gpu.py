"""Jobs whose tensors are on GPUs, here those of the stand-in: exact, named, and ended in time."""

import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

STANDIN = os.path.join(hvtest.BUILD, "tests", "standin")
GPU = ("-x", f"HVRUN_GPU_PLUGIN={STANDIN}/libstandin_plugin.so",
       "-x", f"HVRUN_CUDA_LIBRARY={STANDIN}/libcuda.so.1",
       "-x", f"HVRUN_NCCL_LIBRARY={STANDIN}/libnccl.so.2")
QUICK = ("--device", "cuda", "--iters", "2", "--warmup", "1", "--max-bytes", "64K", "--factor", "64")
BOUND = 90  # seconds, generous: what is bounded takes a few


def with_variables(of_rank):
    """A shell that sets a variable on some ranks and then becomes hvbench."""
    lines = [f'if [ "$HVRUN_RANK" = {rank} ]; then export {text}; fi'
             for rank, text in of_rank.items()]
    return "\n".join(lines + ['exec "$0" "$@"'])


class Gpus(unittest.TestCase):
    def bench(self, ranks, *flags, of_rank=None):
        command = [hvtest.binary("hvbench"), *flags]
        if of_rank:
            command = ["sh", "-c", with_variables(of_rank), *command]
        return run_hvrun("-np", ranks, *GPU, *command, timeout=120)

    def test_every_operation_is_exact_and_so_is_the_plain_loop(self):
        for op in ("allreduce", "allgather", "broadcast", "reducescatter", "alltoall"):
            done = self.bench(3, op, *QUICK)
            self.assertEqual(done.code, 0, done)
        done = self.bench(3, "allreduce", "--raw", *QUICK)
        self.assertEqual(done.code, 0, done)

    def test_a_rank_with_another_nccl_is_named_before_there_is_a_communicator(self):
        done = self.bench(3, "allreduce", *QUICK, of_rank={2: "STANDIN_FAULTS=version=22105"})
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("the ranks have different versions of NCCL: 2.28.9 on rank 0", done.err)
        self.assertIn("2.21.5 on rank 2", done.err)

    def test_two_ranks_on_one_device_are_named(self):
        done = self.bench(2, "allreduce", *QUICK, of_rank={1: "HVRUN_DEVICE=0"})
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("two ranks use the same GPU", done.err)

    def test_without_a_gpu_the_ranks_say_what_is_missing(self):
        done = self.bench(2, "allreduce", *QUICK, of_rank={rank: "STANDIN_FAULTS=no-device" for rank in (0, 1)})
        self.assertEqual(done.code, 1, done)
        self.assertIn("there is no device: cuInit", done.err)

    def test_the_script_for_real_devices_runs_to_its_table(self):
        names = {"HVRUN_CUDA_LIBRARY": "libcuda.so.1", "HVRUN_NCCL_LIBRARY": "libnccl.so.2",
                 "HVRUN_GPU_PLUGIN": "libstandin_plugin.so"}
        environment = dict(os.environ) | {name: os.path.join(STANDIN, file)
                                          for name, file in names.items()}
        script = os.path.join(hvtest.TREE, "scripts", "check-gpu")
        done = subprocess.run([script, "--quick", "--build", hvtest.BUILD], text=True, check=False,
                              capture_output=True, timeout=170, env=environment)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"2 ranks +32768 B +[0-9.]+ +[0-9.]+")
        self.assertTrue(done.stdout.endswith("check-gpu: all right\n"), done.stdout)

    def killed(self, fault):
        """Rank 1 dies while all work; returns what hvrun says."""
        script = (f'export STANDIN_FAULTS="{fault}"; '
                  'if [ "$HVRUN_RANK" = 1 ]; then (sleep 2; kill -9 $$) & fi; exec "$0" "$@"')
        began = time.monotonic()
        done = run_hvrun("-np", 2, *GPU, "--grace", "1", "sh", "-c", script,
                         hvtest.binary("hvbench"), "allreduce", "--device", "cuda", "--iters",
                         "1000000", "--min-bytes", "4K", "--max-bytes", "4K", timeout=120)
        self.assertLess(time.monotonic() - began, BOUND)
        self.assertEqual(done.code, 137, done)
        self.assertIn("rank 1", done.err)

    def test_a_killed_rank_ends_the_job(self):
        self.killed("")

    def test_also_where_the_other_ranks_abort_hangs(self):
        self.killed("abort-hangs@0")


if __name__ == "__main__":
    hvtest.main()
