"""Second name, configuration file, manual page and completion, as people use them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402

COMPLETE = """
source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_hvrun
printf '%s\\n' "${COMPREPLY[@]}"
"""


def text_of(*options):
    return subprocess.run([hvtest.binary("hvrun"), *options], check=True, capture_output=True,
                          text=True).stdout


class Manual(unittest.TestCase):
    def complete(self, *words):
        env = dict(os.environ, SCRIPT=text_of("--completion", "bash"))
        done = subprocess.run(["bash", "-c", COMPLETE, "bash", *words], env=env, text=True,
                              check=True, capture_output=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash here")
    def test_bash_completion(self):
        self.assertEqual(self.complete("hvrun", "--hostf"), ["--hostfile"])
        self.assertIn("--fusion-threshold-mb", self.complete("hvrun", "-np", "4", "--fus"))
        self.assertEqual(self.complete("hvrun", "--completion", "b"), ["bash"])
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "hosts.txt"), "w", encoding="ascii").close()
            path = os.path.join(folder, "hos")
            for words in (["--hostfile", path], ["-np", "2", "prog", path]):
                self.assertEqual(self.complete("hvrun", *words), [path + "ts.txt"])
        self.assertEqual(self.complete("hvrun", "-np", "2", "prog", "--hostf"), [])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh_completion_parses(self):
        done = subprocess.run(["zsh", "-n"], input=text_of("--completion", "zsh"), text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_manual_page(self):
        page = text_of("--man")
        self.assertTrue(page.startswith(".TH HVRUN 1"))
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=page, text=True,
                                  capture_output=True)
            self.assertEqual(done.stderr, "")

    def test_second_name_and_horovods_way_of_writing(self):
        done = hvtest.Job(hvtest.binary("horovodrun"), "--gloo", "-np", "2", "-H", "localhost:2",
                          "--fusion", "32", "sh", "-c", "echo $HOROVOD_RANK $HOROVOD_FUSION_THRESHOLD")
        code, out, err = done.finish()
        self.assertEqual((code, err), (0, b""))
        self.assertEqual(sorted(out.splitlines()), [b"[0]<stdout>:0 33554432",
                                                    b"[1]<stdout>:1 33554432"])

    def test_configuration_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("num_proc: 3\nno-prefix: true\nparams:\n  cache_capacity: 77\n")
            file.flush()
            done = hvtest.run_hvrun("--config-file", file.name, "-np", "2", "sh", "-c",
                                    "echo $HVRUN_CACHE_CAPACITY")
            self.assertEqual((done.code, done.out), (0, "77\n77\n"), done)
            file.write("nmu_proc: 4\n")
            file.flush()
            done = hvtest.run_hvrun("--config-file", file.name, "true")
            self.assertEqual(done.code, 2)
            self.assertIn(f"{file.name}:5:1: unknown key 'nmu_proc'", done.err)
        done = hvtest.run_hvrun("--config-file", "/nope.yaml", "true")
        self.assertEqual(done.code, 2)
        self.assertIn("/nope.yaml: No such file", done.err)


if __name__ == "__main__":
    hvtest.main()
