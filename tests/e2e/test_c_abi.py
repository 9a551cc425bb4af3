"""The C ABI, from a C program and from Python's ctypes."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

LIBRARY = os.path.join(hvtest.BUILD, "lib", "libhv.so")
HEADER = os.path.join(hvtest.TREE, "runtime", "include", "hv", "hv_c.h")


class CAbi(unittest.TestCase):
    def expect_fine(self, done, ranks):
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertEqual(done.out.count("all right"), ranks, done)

    def test_a_program_in_c(self):
        for ranks in (2, 3):
            self.expect_fine(hvtest.run_hvrun("-np", ranks, hvtest.binary("c_ranks")), ranks)

    def test_its_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            done = hvtest.run_hvrun("-np", 2, hvtest.binary("c_ranks"), "t.json", cwd=folder)
            self.expect_fine(done, 2)
            with open(os.path.join(folder, "t.json"), encoding="utf-8") as file:
                names = {event["name"] for event in json.load(file)}
            self.assertTrue({"ALLREDUCE", "ALLGATHER", "NEGOTIATE_BROADCAST"} <= names, names)

    def test_python_by_ctypes(self):
        script = os.path.join(hvtest.TREE, "tests", "programs", "ctypes_ranks.py")
        self.expect_fine(hvtest.run_hvrun("-np", 3, sys.executable, script, LIBRARY), 3)

    def test_every_function_is_there(self):
        with open(HEADER, encoding="utf-8") as file:
            declared = set(re.findall(r"^HV_C_API [^;(]*?\b(hv_\w+)\(", file.read(), re.M))
        self.assertGreater(len(declared), 35)
        exported = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True,
                                  capture_output=True, text=True).stdout
        self.assertEqual(declared - set(re.findall(r" T (hv_\w+)$", exported, re.M)), set())

    def test_the_header_is_plain_c(self):
        for command in (["cc", "-std=c11"], ["cc", "-std=c99"], ["c++", "-std=c++20", "-x", "c++"]):
            done = subprocess.run([*command, "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                   "-fsyntax-only", HEADER], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")


if __name__ == "__main__":
    hvtest.main()
