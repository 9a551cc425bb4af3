#!/usr/bin/env python3
"""Times how long programs take from start to exit, in turn. Reads and writes JSON; imports nothing of
ours, so that it runs on any host.

  in   {"times": 11, "timeout": 20, "programs": {name: [argv, ...]}}   several argv: side by side
  out  {name: {"ms": [...], "hung": N, "failed": ["exit code 1", ...]}}

A program that hangs is killed, and the time-out counts as its time.
"""

import json
import os
import signal
import subprocess
import sys
import time


def end(process):
    """Kills a program and its process group. What it left on other hosts ends with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_once(commands, timeout):
    """(milliseconds, exit code, whether it hung)."""
    with open(os.devnull, "r+b") as null:
        start = time.monotonic()
        processes = [subprocess.Popen(argv, stdin=null, stdout=null, stderr=null,
                                      start_new_session=True) for argv in commands]
        try:
            codes = [p.wait(max(0.01, start + timeout - time.monotonic())) for p in processes]
            return 1000 * (time.monotonic() - start), max(codes, key=abs), False
        except subprocess.TimeoutExpired:
            return 1000 * timeout, 0, True
        finally:
            for process in processes:
                end(process)


def run(request):
    results = {name: {"ms": [], "hung": 0, "failed": []} for name in request["programs"]}
    for turn in range(request["times"] + 1):
        for name, commands in request["programs"].items():
            taken, code, hung = run_once(commands, request["timeout"])
            result = results[name]
            if code != 0:
                result["failed"].append(f"exit code {code}")
            elif turn > 0:  # the first turn warms up caches
                result["ms"].append(taken)
                result["hung"] += hung
    return results


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
