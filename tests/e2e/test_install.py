"""Installs the build into a folder of its own and uses it from there, as an outside project does."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["HV_BUILD"])
CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"


def run(*argv, **kwargs):
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=300,
                          **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="hv-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.prefix = cls.top / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def test_find_package_builds_an_outside_project_and_it_runs_under_the_installed_hvrun(self):
        build = self.top / "consumer"
        run("cmake", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        for program in ("consumer", "consumer_static"):
            done = run(self.prefix / "bin/hvrun", "--no-prefix", "-np", 2, build / program)
            self.assertEqual(done.stdout, "average 1.5 of 2\n", program)

    def test_pkg_config_finds_library_and_headers(self):
        where = next(self.prefix.glob("lib*/**/pkgconfig"))
        env = dict(os.environ, PKG_CONFIG_PATH=str(where))
        flags = run("pkg-config", "--cflags", "--libs", "hvrun", env=env).stdout.split()
        program = self.top / "by-pkg-config"
        run("c++", "-std=c++20", CONSUMER / "consumer.cc", "-o", program, *flags)
        library_dir = next(f[2:] for f in flags if f.startswith("-L"))
        env["LD_LIBRARY_PATH"] = library_dir
        done = run(self.prefix / "bin/hvrun", "--no-prefix", "-np", 2, program, env=env)
        self.assertEqual(done.stdout, "average 1.5 of 2\n")

    def test_only_public_headers_are_installed(self):
        headers = {p.relative_to(self.prefix / "include") for p in
                   (self.prefix / "include").rglob("*.h")}
        self.assertIn(pathlib.Path("hv/hv.h"), headers)
        self.assertEqual({p.parts[0] for p in headers}, {"hv"})

    def test_the_example_runs_from_the_installed_tree(self):
        done = run(self.prefix / "bin/hvrun", "-np", 2, self.prefix / "lib/hvrun/examples/train",
                   "--epochs", 1)
        self.assertIn("test accuracy", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
