"""Ranks that srun starts without hvrun: they find each other by PMI-2 or munge, or say what to type."""

import collections
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import binary  # noqa: E402
from slurm_lab import USER, SlurmTest  # noqa: E402

LOOP = "world_loop"
Ended = collections.namedtuple("Ended", "way code out err seconds")
WAYS = ("pmi2", "none")  # none: by munge
MUNGE = ("import ctypes, os, pwd\nm = ctypes.CDLL('libmunge.so.2'); m.munge_ctx_create.restype = ctypes.c_void_p\n"
         "x = ctypes.c_void_p(m.munge_ctx_create()); t = ctypes.c_char_p(); b = ctypes.c_void_p(); n = ctypes.c_int()\n"
         "given = input().encode()\n")
MAKE = (f"m.munge_ctx_set(x, 9, ctypes.c_uint(pwd.getpwnam('{USER}').pw_uid))\n"
        "m.munge_encode(ctypes.byref(t), x, given, len(given)); print(t.value.decode())")
READ = "print(m.munge_decode(given, None, ctypes.byref(b), ctypes.byref(n), None, None))"
SQUATTER = ("import socket, sys\ns = socket.socket(socket.AF_INET6)\ns.bind(('::', int(sys.argv[1]))); s.listen(64)\n"
            "print('ready', flush=True)\n"
            "while True:\n  c = s.accept()[0]; print('came', flush=True); c.sendall(sys.argv[2].encode()); c.close()")


def first_port(tag):
    """Where rank 0 of a step waits for the others, if that is free: see door_ports in runtime/munge_door.cc."""
    number = 2166136261
    for byte in tag.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return 20000 + number % 12000


class BareSrun(SlurmTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.user("eve")

    def both_ways(self, *words, more=()):
        """Runs a step of each way, at once; what they have left, and how long that took."""
        start = time.monotonic()
        steps = [self.lab.popen("h0", ["srun", f"--mpi={way}", *more, *map(str, words)], user=USER, cwd=self.home)
                 for way in WAYS]
        done = []
        for way, step in zip(WAYS, steps):
            try:
                out, err = step.communicate(timeout=90)
            except subprocess.TimeoutExpired:
                step.kill()
                self.fail(f"{way}: still runs\n{step.communicate()}")
            done.append(Ended(way, step.returncode, out, err, time.monotonic() - start))
        self.expect_quiet(10)
        return done

    def failed(self, *words):
        """For each way what the ranks have said at their ends, without srun's words. Slurm itself ends nothing."""
        ended = self.both_ways(*words, more=("--kill-on-bad-exit=0", "--wait=0"))
        for done in ended:
            self.assertNotEqual(done.code, 0, done)
        return [(done, [line for line in done.err.splitlines() if line.startswith("rank ")]) for done in ended]

    def test_ranks_find_each_other(self):
        for place in (["-N", 2, "-n", 8], ["-N", 3, "-n", 4], ["-N", 1, "-n", 3]):
            sizes = collections.Counter(self.as_user("srun", *place, "hostname").split()).values()
            for done in self.both_ways(*place, binary(LOOP), 20, "places", 0, 0):
                self.assertEqual(done.code, 0, done)
                local = re.findall(r"local (\d+) of (\d+)", done.out)
                self.assertEqual(sorted(local), sorted((str(i), str(n)) for n in sizes for i in range(n)), done)

    def test_training(self):
        for done in self.both_ways("-N", 2, "-n", 4, binary("train"), "--epochs", 1):
            self.assertEqual(done.code, 0, done)
            self.assertEqual(done.out.count("ranks 4 "), 1, done)

    def test_two_steps_of_a_job_at_once(self):
        script = self.script(f"srun --overlap --mpi=none -n 2 {binary(LOOP)} 50 &\n"
                             f"srun --overlap --mpi=none -n 2 {binary(LOOP)} 50 & wait -n && wait -n")
        code, text = self.batch("-N", 2, "-n", 2, script)
        self.assertEqual(code, 0, text)

    def test_a_rank_that_dies_ends_the_others(self):
        for culprit in (2, 0):  # 0 serves the others
            for done, told in self.failed("-N", 2, "-n", 4, binary(LOOP), 1000000, "kill", culprit, 3):
                self.assertEqual(len(told), 3, done)
                self.assertLess(done.seconds, 60, done)

    def test_half_of_the_ranks_never_come(self):
        script = self.script(f"[ $SLURM_PROCID -ge 2 ] && exit 0\nHVRUN_START_TIMEOUT=10 exec {binary(LOOP)} 1")
        for done, told in self.failed("-N", 2, "-n", 4, script):
            self.assertEqual(len(told), 2, done)
            for line in told:
                self.assertRegex(line, r"2 of 4 ranks are missing: 2-3 \(never called init\)")

    def test_rank_0_never_comes(self):
        script = self.script(f"[ $SLURM_PROCID = 0 ] && exit 0\nHVRUN_START_TIMEOUT=5 exec {binary(LOOP)} 1")
        for done, told in self.failed("-N", 2, "-n", 2, script):
            self.assertEqual(len(told), 1, done)
            self.assertRegex(told[0], r"rank 1: .*rank 0 on h\d has not come to hv::init in time")

    def test_a_rank_that_dies_while_it_joins(self):
        """The others learn it at once, though one of them has not come and the time is not up."""
        script = self.script(f"export HVRUN_START_TIMEOUT=60\n[ $SLURM_PROCID = 2 ] && exit 0\n"
                             f"[ $SLURM_PROCID = 1 ] && exec timeout -s KILL 6 {binary(LOOP)} 1\nexec {binary(LOOP)} 1")
        for done, told in self.failed("-N", 2, "-n", 4, script):
            self.assertEqual(len(told), 2, done)
            for line in told:
                self.assertIn("rank 1: ended without a goodbye", line, done)
            self.assertLess(done.seconds, 55, done)

    def test_neither_way(self):
        task = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "8",
                "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "h[1-2]"}
        hidden = f"mount -t tmpfs none /run/munge && exec {binary(LOOP)} 1"
        done = self.lab.run("h1", ["unshare", "-m", "sh", "-c", hidden], env=task)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("type instead: srun --mpi=pmi2 -n 8 PROGRAM", done.stderr)

    def munge(self, what, host, user, text):
        """Runs `what` on that host as that user: MAKE puts the text into a credential for ann, READ takes it out."""
        done = self.lab.run(host, ["/usr/bin/python3", "-c", MUNGE + what], user=user, input=text + "\n", stdin=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_credential_is_for_its_user_only(self):
        credential = self.munge(MAKE, "h1", USER, "secret")
        self.assertEqual(self.munge(READ, "h2", "eve", credential), "18")  # EMUNGE_CRED_UNAUTHORIZED
        self.assertEqual(self.munge(READ, "h2", USER, credential), "0")

    def test_another_user_at_the_door(self):
        """Whoever has taken the port before rank 0 gets nobody in: what he says is not of this user."""
        go = os.path.join(self.home, "go")
        script = self.script(f"echo job $SLURM_JOB_ID $SLURM_NODELIST; until [ -e {go} ]; do sleep 0.1; done\n"
                             f"exec srun --mpi=none {binary(LOOP)} 20")
        job = self.sbatch("-N", 2, "-n", 4, "-w", "h[1-2]", script)
        self.wait_for_text("job ")
        port = first_port(f"{job}.0 ")
        lie = f"{job}.0 {'ab' * 32} 10.77.0.1:{port}"
        squatter = self.lab.popen("h1", ["/usr/bin/python3", "-c", SQUATTER, str(port),
                                         self.munge(MAKE, "h1", "eve", lie)], user="eve")
        try:
            self.assertEqual(squatter.stdout.readline(), "ready\n")
            with open(go, "w"):
                pass
            state = self.wait_for_state(job, "COMPLETED FAILED CANCELLED")
            self.assertEqual(state["ExitCode"], "0:0", self.output())
        finally:
            squatter.kill()
            came = squatter.communicate()[0]
            os.remove(go)
        self.assertIn("came", came)  # ranks have asked eve first

    def test_a_script_of_a_job_is_no_task(self):
        """What a batch script runs without srun is alone, however many tasks the job is to have."""
        code, text = self.batch("-N", 2, "-n", 4, self.script(f"exec {binary(LOOP)} 1"))
        self.assertEqual(code, 0, text)
        self.assertIn("world of size 1", text)


if __name__ == "__main__":
    hvtest.main()
