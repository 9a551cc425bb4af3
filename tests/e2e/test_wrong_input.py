"""Wrong input: one screen that says what, where and what to do, at once, and nothing is started."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402


class WrongInput(unittest.TestCase):
    def expect(self, args, code, *texts, **popen):
        for _ in range(3):  # a busy machine may take its time once
            done = hvtest.run_hvrun(*args, timeout=10, **popen)
            if done.seconds < 1:
                break
        with self.subTest(args=args):
            self.assertEqual(done.code, code, done)
            self.assertLess(done.seconds, 1, done)
            self.assertEqual(done.out, "")
            self.assertLessEqual(len(done.err.splitlines()), 24, done)
            for text in texts:
                self.assertIn(text, done.err)

    def test_options(self):
        self.expect(["--hostfle", "x", "true"], 2, "'--hostfle'", "--hostfile?")
        self.expect(["-np", "0", "true"], 2, "'0'", "--num-proc")
        self.expect(["-np", "four", "true"], 2, "'four'")
        self.expect(["-np", "-1", "true"], 2, "'-1'")
        self.expect(["-np"], 2, "-np needs a value")
        self.expect(["--h", "x"], 2, "--hosts", "--hostfile", "--help")
        self.expect(["-np", "2"], 2, "no program")
        self.expect(["--verbose=yes", "true"], 2, "takes no value")
        self.expect(["--port-range", "9-8", "true"], 2, "LOW-HIGH")
        self.expect(["--prefix", "color", "true"], 2, "'color'", "rank")
        self.expect(["-x", "=3", "true"], 2, "-x VAR")
        self.expect(["-H", "a", "--hostfile", "b", "true"], 2, "--hosts", "--hostfile")

    def test_variables(self):
        def expect(variable, *texts):
            name, _, value = variable.partition("=")
            self.expect(["-np", "2", "true"], 2, *texts, env=dict(os.environ, **{name: value}))
        expect("HVRUN_FUSION_THRESHOLD=64MB", "HVRUN_FUSION_THRESHOLD is '64MB'",
               "a whole number from 0 to 1099511627776")
        expect("HOROVOD_STALL_CHECK_TIME_SECONDS=never", "HOROVOD_STALL_CHECK_TIME_SECONDS",
               "a number from 0.1")
        expect("HVRUN_ALGORITHM=fastest", "'fastest'", "doubling")
        self.expect(["-np", "1", "-x", "HVRUN_SPIN_US=-1", "true"], 2, "HVRUN_SPIN_US is '-1'")

    def test_unknown_variables_are_told(self):
        done = hvtest.run_hvrun("-np", "1", "-x", "HVRUN_STALL_CHEK_TIME=3", "true")
        self.assertEqual(done.code, 0, done)
        self.assertIn("nothing reads HVRUN_STALL_CHEK_TIME; did you mean HVRUN_STALL_CHECK_TIME?",
                      done.err)

    def test_help_env(self):
        done = hvtest.run_hvrun("--help-env")
        self.assertEqual((done.code, done.err), (0, ""), done)
        for text in ("HVRUN_FUSION_THRESHOLD, HOROVOD_FUSION_THRESHOLD", "default: 134217728",
                     "HVRUN_THREAD_AFFINITY", "HVRUN_LOG_LEVEL", "CYCLE_TIME"):
            self.assertIn(text, done.out)

    def test_hosts(self):
        self.expect(["-np", "4", "-H", "localhost:0", "127.0.0.2:2", "127.0.0.3:2", "W-env"], 2,
                    "'127.0.0.2:2'", "look like hosts",
                    "hvrun -np 4 -H localhost:0,127.0.0.2:2,127.0.0.3:2 W-env", "zero slots")
        self.expect(["-H", "localhost:127.0.0.2:2", "true"], 2, "localhost,127.0.0.2:2")
        self.expect(["-H", "fd00::2", "true"], 2, "[fd00::2]")
        self.expect(["-np", "2", "-H", "localhost", "true"], 2, "-H localhost:2", "no count given")
        self.expect(["-np", "9", "-H", "a:2,b:3", "true"], 2, "9 ranks", "5", "-np 5")
        self.expect(["-H", "a:2,,b", "true"], 2, "a host is missing")

    def test_hostfiles(self):
        self.expect(["--hostfile", "/nope", "true"], 2, "/nope", "No such file", "Nothing was started")
        with tempfile.TemporaryDirectory() as folder:
            self.expect(["--hostfile", folder, "true"], 2, folder, "directory")
            empty = os.path.join(folder, "empty")
            open(empty, "w").close()
            self.expect(["--hostfile", empty, "true"], 2, empty, "names no host")
            bad = os.path.join(folder, "bad")
            with open(bad, "w") as file:
                file.write("# hosts\nh1 slots=2\nh2 slot=2\n")
            self.expect(["--hostfile", bad, "true"], 2, f"{bad}:3:4", "'slot'", "'slots'")
            self.expect(["--hostfile", "bad", "true"], 2, "bad:3:4", cwd=folder)

    def test_programs(self):
        self.expect(["-np", "2", "no-such-program"], 127, "'no-such-program'", "PATH", "localhost")
        self.expect(["-np", "2", "/no/such"], 127, "/no/such")
        self.expect(["-np", "2", "/etc/passwd"], 126, "/etc/passwd", "chmod +x")
        self.expect(["-np", "2", "/usr"], 126, "is a directory")
        self.expect(["-np", "2", "--wdir", "/nope", "true"], 71, "/nope", "--wdir")
        self.expect(["-np", "2", "--output-filename", "/proc/x", "true"], 2, "/proc/x")
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w") as file:
                file.write("#!/no/interpreter -x\n")
            os.chmod(script, 0o755)
            self.expect(["-np", "2", script], 127, script, "/no/interpreter", "localhost")
            # Two hosts, one block.
            self.expect(["-H", "localhost:1,127.0.0.1:1", script], 127,
                        "localhost, 127.0.0.1 (2 hosts)", "/no/interpreter")

    def test_hostfile_given_as_host(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hosts"), "w") as file:
                file.write("localhost slots=2\r\n\r\n# end\t\n127.0.0.1:1")
            done = hvtest.run_hvrun("-H", "hosts", "--no-prefix", "echo", "x", cwd=folder)
            self.assertEqual((done.code, done.out), (0, "x\nx\nx\n"), done)
            self.assertIn("taken as --hostfile hosts", done.err)


if __name__ == "__main__":
    hvtest.main()
