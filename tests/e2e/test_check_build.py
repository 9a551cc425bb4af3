"""hvrun --check-build tells the truth about broken, hanging, printing, wrong and missing things, in time."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

LIMIT = 3.0
FAKE = os.path.join(hvtest.BUILD, "tests", "libfake_foreign.so")
LIBRARIES = ["libcuda.so.1", "libcudart.so.13", "libnccl.so.2", "libibverbs.so.1"]


class CheckBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hv-check-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.lib = os.path.join(self.folder, "lib")
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.lib)
        os.mkdir(self.bin)

    def fake_libraries(self, *names):
        for name in names:
            os.symlink(FAKE, os.path.join(self.lib, name))

    def script(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, 0o755)

    def run_hvrun(self, *flags, path=None, **more):
        env = {**os.environ, "LD_LIBRARY_PATH": self.lib, **more}
        env["PATH"] = self.bin + ":" + os.environ["PATH"] if path is None else path
        begin = time.monotonic()
        run = subprocess.run([hvtest.binary("hvrun"), "--check-build", *flags], env=env, timeout=60,
                             capture_output=True, stdin=subprocess.DEVNULL)
        took = time.monotonic() - begin
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, b"")
        self.assertLess(took, LIMIT)
        return run.stdout.decode()

    def checks(self, **more):
        table = json.loads(self.run_hvrun("--json", **more))
        return {check["name"]: check for check in table["checks"]}

    def test_table_of_this_machine(self):
        text = self.run_hvrun()
        self.assertRegex(text.splitlines()[0], r"^hvrun \d+\.\d+\.\d+ \(.*\)$")
        for group in ["Launchers", "Data paths", "GPU", "Fabric", "Frameworks", "Limits"]:
            self.assertIn(f"\n{group}\n", text)
        self.assertRegex(text, r"\n  shared memory +yes")
        self.assertRegex(text, r"\n  TCP over IPv4 +yes")
        self.assertRegex(text, r"\n  local +yes +\d\S+ +/.*/hvagent\n")
        self.assertRegex(text, r"\n  open files +\d+")

    def test_json_has_the_same_lines(self):
        names = [check["name"] for check in json.loads(self.run_hvrun("--json"))["checks"]]
        text = self.run_hvrun()
        for name in names:
            self.assertIn(f"\n  {name} ", text)
        self.assertEqual(len(names), len(set(names)))

    def test_horovods_short_flag(self):
        env = {**os.environ}
        run = subprocess.run([hvtest.binary("hvrun"), "-cb"], env=env, capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 0)
        self.assertIn(b"\nLaunchers\n", run.stdout)

    def test_good_libraries(self):
        self.fake_libraries(*LIBRARIES)
        checks = self.checks()
        self.assertEqual(checks["CUDA driver"]["version"], "12.4")
        self.assertEqual(checks["GPUs"]["number"], 2)
        self.assertEqual(checks["GPUs"]["reason"], "2 × Pretend GPU")
        self.assertEqual(checks["CUDA runtime"]["version"], "12.2")
        nccl = checks["NCCL"]
        self.assertEqual((nccl["answer"], nccl["version"]), ("yes", "2.18.5"))
        self.assertEqual(nccl["path"], os.path.join(self.lib, "libnccl.so.2"))
        self.assertIn("ncclMemAlloc (2.19)", nccl["reason"])
        self.assertNotIn("ncclCommSplit", nccl["reason"])
        self.assertEqual(checks["libibverbs"]["reason"], "devices mlx5_0")

    def test_all_libraries_hang_while_loading(self):
        self.fake_libraries(*LIBRARIES)
        self.script("sbatch", "#!/bin/sh\nsleep 100\n")
        self.script("srun", "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 100; done\n")
        checks = self.checks(FAKE_LIBNCCL="hang", FAKE_LIBCUDA="hang", FAKE_LIBCUDART="hang",
                             FAKE_LIBIBVERBS="hang")
        for name in ["CUDA driver", "CUDA runtime", "NCCL", "libibverbs"]:
            self.assertEqual(checks[name]["answer"], "no", name)
            self.assertRegex(checks[name]["reason"], r"^loading lib.* did not end within", name)
        for name in ["Slurm: srun", "Slurm: sbatch"]:
            self.assertEqual(checks[name]["answer"], "no", name)
            self.assertIn("did not end within", checks[name]["reason"])
            self.assertTrue(checks[name]["path"].startswith(self.bin))
        self.assertEqual(checks["shared memory"]["answer"], "yes")

    def test_a_driver_that_hangs_later_names_the_call(self):
        self.fake_libraries("libcuda.so.1")
        driver = self.checks(FAKE_LIBCUDA="hang_later")["CUDA driver"]
        self.assertEqual(driver["answer"], "no")
        self.assertRegex(driver["reason"], r"^cuInit did not end within")
        self.assertEqual(driver["version"], "12.4")

    def test_crash_exit_and_print_on_load(self):
        self.fake_libraries(*LIBRARIES)
        checks = self.checks(FAKE_LIBNCCL="crash", FAKE_LIBCUDA="exit", FAKE_LIBCUDART="print",
                             FAKE_LIBIBVERBS="devices=0")
        self.assertRegex(checks["NCCL"]["reason"], r"^loading libnccl.so.2 ended with signal 11")
        self.assertEqual(checks["CUDA driver"]["answer"], "no")
        self.assertRegex(checks["CUDA driver"]["reason"], r"^loading libcuda.so.1 ended with exit code 0")
        self.assertEqual(checks["CUDA runtime"]["answer"], "yes")  # and stdout was valid JSON
        self.assertEqual(checks["libibverbs"]["reason"], "no device")

    def test_wrong_versions_and_errors(self):
        self.fake_libraries("libnccl.so.2", "libcuda.so.1", "libcudart.so.13")
        checks = self.checks(FAKE_LIBNCCL="version=21003", FAKE_LIBCUDA="error=999",
                             FAKE_LIBCUDART="error=35")
        self.assertEqual((checks["NCCL"]["answer"], checks["NCCL"]["version"]), ("no", "2.10.3"))
        self.assertIn("older than 2.18", checks["NCCL"]["reason"])
        self.assertEqual(checks["CUDA driver"]["reason"], "cuInit failed with error 999")
        self.assertEqual(checks["GPUs"]["answer"], "no")
        self.assertIn("error 35", checks["CUDA runtime"]["reason"])
        checks = self.checks(FAKE_LIBNCCL="version=2708", FAKE_LIBCUDA="error=100")
        self.assertEqual(checks["NCCL"]["version"], "2.7.8")
        self.assertEqual((checks["CUDA driver"]["answer"], checks["GPUs"]["number"]), ("yes", 0))

    def test_what_is_no_library_or_another_one(self):
        with open(os.path.join(self.lib, "libnccl.so.2"), "w") as out:
            out.write("this is no library\n")
        with open(os.path.join(self.lib, "libnccl.so"), "w") as out:
            out.write("this neither\n")
        os.symlink("/lib/x86_64-linux-gnu/libm.so.6", os.path.join(self.lib, "libcuda.so.1"))
        checks = self.checks()
        self.assertEqual(checks["NCCL"]["answer"], "no")
        self.assertRegex(checks["NCCL"]["reason"], r"libnccl\.so\.2: (file too short|invalid ELF header)")
        if os.path.exists("/lib/x86_64-linux-gnu/libm.so.6"):
            self.assertEqual(checks["CUDA driver"]["answer"], "no")
            self.assertIn("not a CUDA driver", checks["CUDA driver"]["reason"])

    def test_broken_and_missing_libraries(self):
        for name in ("libcuda.so.1", "libcuda.so", "libibverbs.so.1", "libibverbs.so"):
            with open(os.path.join(self.lib, name), "w") as out:
                out.write("not a library\n")
        checks = self.checks()
        for name, library in (("CUDA driver", "libcuda.so.1"), ("libibverbs", "libibverbs.so.1")):
            self.assertEqual(checks[name]["answer"], "no")
            self.assertRegex(checks[name]["reason"], re.escape(library) + ": (file too short|invalid ELF header)")
        missing = self.checks(LD_LIBRARY_PATH="")["CUDA driver"]
        if not any(os.path.exists(os.path.join(folder, "libcuda.so.1"))
                   for folder in ("/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")):
            self.assertEqual(missing["reason"], "not found; tried libcuda.so.1, libcuda.so")

    def test_nothing_in_path(self):
        checks = self.checks(path=self.bin)
        for name, program in [("ssh: OpenSSH client", "ssh"), ("Slurm: srun", "srun"),
                              ("Slurm: sbatch", "sbatch"), ("PyTorch", "python3")]:
            self.assertEqual(checks[name]["answer"], "no")
            self.assertEqual(checks[name]["reason"], f"no {program} in PATH")

    def test_programs_that_fail_print_or_crash(self):
        self.script("srun", "#!/bin/sh\nexec head -c 3000000 /dev/zero\n")
        self.script("sbatch", "#!/bin/sh\necho 'sbatch: error: no slurm.conf' >&2\nexit 1\n")
        self.script("ssh", "#!/bin/sh\nkill -SEGV $$\n")
        checks = self.checks()
        self.assertEqual(checks["Slurm: srun"]["reason"], "srun --version tells no version")
        self.assertEqual(checks["Slurm: sbatch"]["reason"],
                         "sbatch --version ended with exit code 1: sbatch: error: no slurm.conf")
        self.assertIn("ended with signal 11", checks["ssh: OpenSSH client"]["reason"])
        self.script("srun", "#!/bin/sh\necho slurm 23.11.4\n")
        self.script("sbatch", "#!/bin/sh\necho slurm-wlm 22.05.8\n")
        checks = self.checks()
        self.assertEqual(checks["Slurm: srun"]["version"], "23.11.4")
        self.assertEqual(checks["Slurm: sbatch"]["version"], "22.05.8")
        self.script("srun", "no program at all")
        os.chmod(os.path.join(self.bin, "srun"), stat.S_IRUSR)
        self.assertNotEqual(self.checks()["Slurm: srun"].get("path", ""), os.path.join(self.bin, "srun"))

    def frameworks(self, **modules):
        packages = os.path.join(self.folder, "python")
        os.makedirs(packages, exist_ok=True)
        for name, text in modules.items():
            with open(os.path.join(packages, name + ".py"), "w") as out:
                out.write(text)
        return self.checks(PYTHONPATH=packages)

    def test_frameworks(self):
        checks = self.frameworks(torch="raise RuntimeError('broken torch')",
                                 tensorflow="print('hello'); __version__ = '2.15'",
                                 jax="import time; time.sleep(60)")
        self.assertEqual(checks["PyTorch"]["answer"], "no")
        self.assertIn("RuntimeError: broken torch", checks["PyTorch"]["reason"])
        self.assertEqual((checks["TensorFlow"]["answer"], checks["TensorFlow"]["version"]), ("yes", "2.15"))
        self.assertIn("its import did not end within", checks["JAX"]["reason"])

    def test_without_home_and_environment(self):
        run = subprocess.run([hvtest.binary("hvrun"), "--check-build", "--json"], env={},
                             capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        json.loads(run.stdout)


if __name__ == "__main__":
    hvtest.main()
