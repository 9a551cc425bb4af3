"""Shared by the end-to-end tests: where the binaries are, and how a test file ends.

A test file is a unittest module that calls hvtest.main(). CMake runs it with HV_BUILD set to the
build folder. Exit code 77 means that nothing in it could run here; the reason is printed.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.abspath(os.environ.get("HV_BUILD", os.path.join(TREE, "build")))


def binary(name):
    """hvrun, hvagent, train ... or a fixture program of tests/programs."""
    for folder in ("bin", "tests"):
        path = os.path.join(BUILD, folder, name)
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"no {name} in {BUILD}; build it first")


SOAK = os.environ.get("HV_SOAK", "0") == "1"


def repeats(soak, usual=3):
    """How often a racy case runs: a few times in CI, the full count with scripts/test --soak."""
    return soak if SOAK else usual


# Every process of a job started here carries this variable, so that left-overs are found.
MARK = "HVTEST_MARK"


def processes(mark):
    """pid -> command line, without the folder of the program, of the living marked processes."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            words[0] = os.path.basename(words[0])
            found[int(name)] = b" ".join(words).decode(errors="replace").strip()
        except OSError:
            continue  # gone meanwhile, or not ours to read
    return found


class Patience:
    """A bound on a wait that is fair to a busy machine: where this test itself gets no processor, the
    job does not, either, so a turn counts for no more than it takes on an idle machine."""

    TURN = 0.1

    def __init__(self, seconds):
        self.left = seconds
        self.turn_began = time.monotonic()

    def over(self):
        """Ends a turn."""
        now = time.monotonic()
        self.left -= min(now - self.turn_began, self.TURN)
        self.turn_began = now
        return self.left < 0


def wait_until(condition, seconds, what):
    """Polls until condition() is true and returns its value; AssertionError naming `what` at the end."""
    patience = Patience(seconds)
    while True:
        value = condition()
        if value:
            return value
        if patience.over():
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Job:
    """A program, usually hvrun, and all processes that come from it."""

    def __init__(self, *command, env=None, **popen):
        self.mark = uuid.uuid4().hex
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        environment = dict(os.environ if env is None else env)
        environment[MARK] = self.mark
        self.started = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in command], env=environment, **popen)
        self.pid = self.process.pid

    def processes(self):
        return processes(self.mark)

    def find(self, text, count=1, seconds=10):
        """The pids of `count` processes of the job whose command line begins with `text`."""
        def matching():
            found = [pid for pid, line in self.processes().items() if line.startswith(text)]
            return found if len(found) >= count else None
        return wait_until(matching, seconds, f"{count} processes with '{text}'")

    def parent_of(self, pid):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def agent_and_keeper(self):
        """(agent, keeper) of a job on this machine."""
        pids = self.find("hvagent", count=2)
        keeper = next(pid for pid in pids if self.parent_of(pid) not in pids)
        return next(pid for pid in pids if pid != keeper), keeper

    def finish(self, timeout=60):
        """Waits for the end. (exit code, stdout, stderr) as bytes; stderr shown when it times out."""
        patience = Patience(timeout)
        ended = []
        reader = threading.Thread(target=lambda: ended.append(self.process.communicate()))
        reader.start()
        while reader.is_alive():
            if patience.over():
                self.kill_all()
                reader.join()
                err = ended[0][1] or b""
                raise AssertionError(f"still running after {timeout} s: {self.process.args}\n"
                                     f"{err.decode(errors='replace')}")
            reader.join(Patience.TURN)
        out, err = ended[0]
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        self.seconds = time.monotonic() - self.started
        return self.process.returncode, out, err

    def expect_gone(self, seconds=12):
        """Nothing of the job is left anywhere on this machine within `seconds`."""
        def gone():
            return not self.processes()
        try:
            wait_until(gone, seconds, "the end of all processes")
        except AssertionError:
            left = self.processes()
            self.kill_all()
            raise AssertionError(f"left running after {seconds} s: {left}") from None

    def kill_all(self):
        while self.processes():
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)


class Done:
    """What a finished run has left: code, out and err (text), seconds."""

    def __init__(self, code, out, err, seconds):
        self.code, self.seconds = code, seconds
        self.raw_out, self.raw_err = out or b"", err or b""
        self.out = self.raw_out.decode(errors="replace")
        self.err = self.raw_err.decode(errors="replace")

    def __repr__(self):
        return f"exit code {self.code} after {self.seconds:.2f} s\n{self.out}{self.err}"


def run_hvrun(*args, timeout=60, **popen):
    """Runs hvrun to its end and checks that nothing of it is left."""
    job = Job(binary("hvrun"), *args, **popen)
    code, out, err = job.finish(timeout)
    job.expect_gone(2)
    return Done(code, out, err, job.seconds)


def pretended_hosts(folder, names, slots):
    """Options of hvrun for hosts that are all this machine: --launch-agent with a program that
    reaches each by nothing at all. Every one has an agent of its own."""
    reach = os.path.join(folder, "reach")
    with open(reach, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\nshift\nexec "$@"\n')
    os.chmod(reach, 0o755)
    return ["--launch-agent", reach, "-H", ",".join(f"{name}:{slots}" for name in names)]


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
