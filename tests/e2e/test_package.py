"""The tarball of scripts/package, unpacked in a home directory and run by an ordinary user."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402

NOBODY = 65534


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp(prefix="hv-home-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        made = subprocess.run([os.path.join(hvtest.TREE, "scripts", "package"), hvtest.BUILD, cls.home],
                              text=True, capture_output=True, check=False)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        tarball = made.stdout.strip()
        subprocess.run(["tar", "-C", cls.home, "-xzf", tarball], check=True)
        cls.tree = tarball.removesuffix(".tar.gz")
        os.chmod(cls.home, 0o755)
        cls.user = {}
        if os.geteuid() == 0:
            for folder, _, files in os.walk(cls.home):
                for name in [folder, *(os.path.join(folder, f) for f in files)]:
                    os.chown(name, NOBODY, NOBODY, follow_symlinks=False)
            cls.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def run_it(self, program, *args):
        env = {"PATH": "/usr/bin:/bin", "HOME": self.home}
        done = subprocess.run([os.path.join(self.tree, "bin", program), *map(str, args)], env=env,
                              cwd=self.home, text=True, capture_output=True, timeout=100, **self.user)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_runs_from_there(self):
        train = os.path.join(self.tree, "lib", "hvrun", "examples", "train")
        self.assertIn("test accuracy", self.run_it("hvrun", "-np", 2, train, "--epochs", 1))
        self.assertIn("hvrun", self.run_it("horovodrun", "--version"))

    def test_holds_manual_and_completions(self):
        for path in ("share/man/man1/hvrun.1", "share/bash-completion/completions/hvrun",
                     "share/zsh/site-functions/_hvrun", "libexec/hvrun/hvagent",
                     "libexec/hvrun/hv_ssh.so", "README.md", "LICENSE"):
            self.assertTrue(os.path.exists(os.path.join(self.tree, path)), path)


if __name__ == "__main__":
    hvtest.main()
