"""Shared by the end-to-end tests: where the binaries are, and how a test file ends.

A test file is a unittest module that calls hvtest.main(). CMake runs it with HV_BUILD set to the
build folder. Exit code 77 means that nothing in it could run here; the reason is printed.
"""

import os
import sys
import unittest

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.abspath(os.environ.get("HV_BUILD", os.path.join(TREE, "build")))


def binary(name):
    """hvrun, hvagent, train ... or a fixture program of tests/programs."""
    for folder in ("bin", "tests"):
        path = os.path.join(BUILD, folder, name)
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"no {name} in {BUILD}; build it first")


def main():
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0 and not result.skipped:
        sys.exit("no test ran")
    sys.exit(77 if len(result.skipped) > 0 and result.testsRun <= len(result.skipped) else 0)
