#!/usr/bin/env python3
"""Times how long programs take from start to exit, in turn. Reads and writes JSON; imports nothing of
ours, so that it runs on any host.

  in   {"times": 11, "timeout": 20, "programs": {name: [argv, ...]}}   several argv: side by side
  out  {name: {"ms": [...], "hung": N, "failed": ["exit code 1", ...]}}

A program that hangs is killed, and the time-out counts as its time.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time


def wait_until(process, deadline):
    """Its exit code, or None when it is still running at the deadline. Popen.wait(timeout) would look
    only every now and then, up to 50 ms late."""
    pidfd = os.pidfd_open(process.pid)
    try:
        select.select([pidfd], [], [], max(0, deadline - time.monotonic()))
        return process.poll()
    finally:
        os.close(pidfd)


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
        codes = [wait_until(process, start + timeout) for process in processes]
        taken = 1000 * (time.monotonic() - start)
        for process in processes:
            end(process)
    if None in codes:
        return 1000 * timeout, 0, True
    return taken, max(codes, key=abs), False


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
