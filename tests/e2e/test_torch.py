"""A PyTorch program with init_method="env://" starts unchanged."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
PROGRAM = os.path.join(hvtest.TREE, "tests", "programs", "torch_allreduce.py")


def torch_missing():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0


@unittest.skipIf(torch_missing(), "python3-torch is not installed")
class Torch(unittest.TestCase):
    def test_env_rendezvous(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment["GLOO_SOCKET_IFNAME"] = "lo"
        for hosts in ["-np", 3], ["-H", "localhost:2,127.0.0.1:1"]:
            done = hvtest.run_hvrun(*hosts, "--no-prefix", PYTHON, PROGRAM, timeout=120, env=environment)
            self.assertEqual((done.code, done.out), (0, "sum 6 of 3\n" * 3), done)


if __name__ == "__main__":
    hvtest.main()
