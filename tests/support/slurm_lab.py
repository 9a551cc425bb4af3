"""SlurmTest: a lab with Slurm on it, and what its tests have in common. An ordinary user runs everything."""

import os
import re
import time

from hvtest import binary, wait_until
from lab import LabTest

USER = "ann"


class SlurmTest(LabTest):
    HOSTS = 3
    SETTINGS = ()  # of slurm.conf

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.user(USER)
        cls.lab.slurm(*cls.SETTINGS)
        cls.home = cls.lab.home(USER)

    def as_user(self, *argv, host="h0", check=True, **options):
        """A command of Slurm; its standard output, without the last newline."""
        done = self.lab.run(host, [str(word) for word in argv], user=USER, cwd=self.home, **options)
        if check:
            self.assertEqual(done.returncode, 0, f"{argv}\n{done.stdout}{done.stderr}")
        return done.stdout.rstrip("\n")

    def script(self, text, name="job.sh"):
        """A program in the user's home."""
        path = os.path.join(self.home, name)
        with open(path, "w") as out:
            out.write("#!/bin/bash\n" + text + "\n")
        os.chmod(path, 0o755)
        return path

    def output(self, name="out"):
        try:
            with open(os.path.join(self.home, name)) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def sbatch(self, *words, env=None):
        """Submits; the number of the job. Its output goes to ~/out."""
        out = os.path.join(self.home, "out")
        if os.path.exists(out):
            os.remove(out)
        environment = {"HVRUN": binary("hvrun"), **(env or {})}
        return self.as_user("sbatch", "--parsable", "-o", out, *words, env=environment)

    def state(self, job):
        shown = self.as_user("scontrol", "show", "job", job)
        return dict(re.findall(r"(\w+)=(\S+)", shown))

    def wait_for_state(self, job, wanted, seconds=60):
        def reached():
            state = self.state(job)
            return state if state["JobState"] in wanted.split() else None
        try:
            return wait_until(reached, seconds, f"job {job} is {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state(job)}\n{self.output()}") from None

    def batch(self, *words, seconds=60, env=None):
        """Submits and waits for the end; (exit code, output)."""
        job = self.sbatch(*words, env=env)
        state = self.wait_for_state(job, "COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL", seconds)
        self.expect_quiet(10)
        return int(state["ExitCode"].split(":")[0]), self.output()

    def hvrun_job(self, options, *words, seconds=60, **keywords):
        """A job whose script is one line of hvrun; (exit code, sorted lines)."""
        script = self.script(f'exec "$HVRUN" {" ".join(words)}')
        code, text = self.batch(*options, script, seconds=seconds, **keywords)
        return code, sorted(text.splitlines())

    def wait_for_text(self, text, name="out", count=1, seconds=30):
        try:
            wait_until(lambda: self.output(name).count(text) >= count, seconds, f"'{text}' in ~/{name}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output(name)}") from None

    def ended_within(self, seconds):
        start = time.monotonic()
        self.expect_quiet(seconds)
        return time.monotonic() - start
