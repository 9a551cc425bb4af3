"""One machine: exit codes, arguments, environment, standard input, working directory."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

PRINT_ENVIRONMENT = "import os,sys; sys.stdout.buffer.write(b'\\0'.join(k+b'='+v for k,v in sorted(os.environb.items())))"


class ExitCodes(unittest.TestCase):
    def test_zero_only_if_all_are_zero(self):
        self.assertEqual(run_hvrun("-np", 4, "/bin/true").code, 0)
        self.assertEqual(run_hvrun("-np", 4, "sh", "-c", "[ $RANK != 3 ]").code, 1)

    def test_first_failure_wins(self):
        script = "case $RANK in 1) exit 3;; 2) sleep 0.3; exit 5;; *) sleep 30;; esac"
        for _ in range(hvtest.repeats(50)):
            done = run_hvrun("-np", 4, "sh", "-c", script)
            self.assertEqual(done.code, 3, done)
            self.assertLess(done.seconds, 15)

    def test_exit_at_once(self):
        for _ in range(hvtest.repeats(500, usual=100)):
            self.assertEqual(run_hvrun("-np", 2, "sh", "-c", "exit $((RANK * 3))").code, 3)

    def test_random_finishing_order(self):
        script = "sleep 0.0$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')"
        for _ in range(hvtest.repeats(200, usual=20)):
            done = run_hvrun("-np", 4, "sh", "-c", script)
            self.assertEqual(done.code, 0, done)

    def test_signals(self):
        for name, code in {"SEGV": 139, "KILL": 137, "ABRT": 134, "INT": 130}.items():
            done = run_hvrun("-np", 2, "sh", "-c", f"[ $RANK = 0 ] && sleep 60; kill -{name} $$")
            self.assertEqual(done.code, code, done)
            self.assertIn("SIG" + name, done.err)

    def test_closing_block_names_the_cause(self):
        script = textwrap.dedent("""
            if [ $RANK = 2 ]; then
              for i in $(seq 30); do echo line $i >&2; done
              exit 7
            fi
            exec sleep 100""")
        done = run_hvrun("-np", 4, "sh", "-c", script)
        self.assertEqual(done.code, 7, done)
        block = done.err[done.err.index("hvrun: rank"):]
        self.assertRegex(block, r"^hvrun: rank 2 on localhost \(pid \d+\) exited with code 7 after")
        self.assertIn("| line 30\n", block)
        self.assertIn("| line 11\n", block)
        self.assertNotIn("| line 10\n", block)
        self.assertIn("3 other ranks ended because of this", block)
        self.assertTrue(done.err.endswith(block))

    def test_crowded_out_lines_stay_with_the_cause(self):
        script = "[ $RANK = 1 ] && { echo the reason >&2; exit 4; }; sleep 0.05; echo lost >&2; exit 9"
        done = run_hvrun("-np", 3, "sh", "-c", script)
        self.assertEqual(done.code, 4, done)
        self.assertIn("| the reason", done.err[done.err.index("hvrun:"):])


class Arguments(unittest.TestCase):
    def test_the_program_keeps_its_own(self):
        own = ["-H", "x", "--verbose", "-np", "9", "--hostfile", "y", "--", "-x", "", "a b", "'\"$`\\\n"]
        show = "import sys; print(sys.argv[1:])"
        for separator in [], ["--"]:
            done = run_hvrun("-np", 1, "--no-prefix", *separator, sys.executable, "-c", show, *own)
            self.assertEqual(done.out, f"{own}\n", done)

    def test_places(self):
        show = "echo $HVRUN_RANK/$HVRUN_SIZE $HVRUN_LOCAL_RANK/$HVRUN_LOCAL_SIZE " \
               "$HVRUN_CROSS_RANK/$HVRUN_CROSS_SIZE $HOROVOD_RANK $RANK $WORLD_SIZE"
        done = run_hvrun("-np", 3, "-H", "localhost:2,127.0.0.1:1", "--no-prefix", "sh", "-c", show)
        self.assertEqual(sorted(done.out.splitlines()),
                         ["0/3 0/2 0/2 0 0 3", "1/3 1/2 0/1 1 1 3", "2/3 0/1 1/2 2 2 3"], done)

    def test_all_local_spellings_without_ssh(self):
        host = os.uname().nodename
        for hosts in [], ["-H", "localhost:2"], ["-H", f"{host}:2"], ["-H", "[::1]:2"]:
            done = run_hvrun("-np", 2, *hosts, "--no-prefix", "echo", "x",
                             env={**os.environ, "PATH": "/nowhere:/bin"})
            self.assertEqual((done.code, done.out), (0, "x\nx\n"), done)

    def test_default_is_a_rank_per_core(self):
        cores = len(os.sched_getaffinity(0))
        done = run_hvrun("--no-prefix", "echo", "x", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(done.out.count("x"), cores, done)
        done = run_hvrun("--no-prefix", "echo", "x",
                         env={**os.environ, "CUDA_VISIBLE_DEVICES": "2,3,5"})
        self.assertEqual(done.out.count("x"), 3, done)


class Environment(unittest.TestCase):
    def printed(self, *args, env):
        done = run_hvrun("-np", 1, "--no-prefix", *args, sys.executable, "-c", PRINT_ENVIRONMENT,
                         env=env)
        self.assertEqual(done.code, 0, done)
        return dict(entry.split(b"=", 1) for entry in done.raw_out.rstrip(b"\n").split(b"\0"))

    def test_odd_names_and_bytes_pass_unchanged(self):
        odd = {b"A.B": b"1", b"X%%": b"() { :; }", b"E": b"", "U".encode(): "héé".encode(),
               b"N": b"l1\nl2", b"Q": b"'\"`$", b"RAW": b"\x8a\xff", b"BASH_FUNC_f%%": b"() {  echo\n}"}
        seen = self.printed(env={**os.environb, **odd})
        for name, value in odd.items():
            self.assertEqual(seen.get(name), value, name)
        self.assertEqual(seen[b"PYTHONUNBUFFERED"], b"1")

    def test_everything_travels_but_the_old_job(self):
        own = {**os.environb, b"HVRUN_SECRET": b"old", b"HVRUN_AGENT": b"old", b"HVRUN_RANK": b"77",
               b"HVRUN_LOG_LEVEL": b"info", b"TOKEN": b"t"}
        seen = self.printed(env=own)
        self.assertEqual(seen[b"HVRUN_RANK"], b"0")
        self.assertNotEqual(seen[b"HVRUN_SECRET"], b"old")
        self.assertTrue(seen[b"HVRUN_AGENT"].startswith(b"@hv-"))
        for name in b"HVRUN_LOG_LEVEL", b"TOKEN", b"PATH", b"HOME":
            if name in own:
                self.assertEqual(seen[name], own[name])

    def test_x_and_no_env(self):
        own = {"PATH": os.environ["PATH"], "HOME": "/home/x", "KEEP": "k", "N_A": "1", "N_B": "2",
               "DROP": "d", "B": "old"}
        seen = self.printed("--no-env", "-x", "KEEP", "-x", "B=2", "-x", "N_*", env=own)
        for name, value in {b"KEEP": b"k", b"B": b"2", b"N_A": b"1", b"N_B": b"2",
                            b"HOME": b"/home/x"}.items():
            self.assertEqual(seen.get(name), value)
        self.assertNotIn(b"DROP", seen)
        self.assertEqual(self.printed("-x", "B=2", env=own)[b"B"], b"2")

    def test_large_environment(self):
        large = {f"V{i}": "x" * 1024 for i in range(1200)}
        seen = self.printed(env={**os.environ, **large})
        self.assertEqual(sum(name.startswith(b"V") and len(value) == 1024
                             for name, value in seen.items()), 1200)

    def test_secret_is_in_no_command_line(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "--verbose", "sleep", "5",
                         env={**os.environ, "API_TOKEN": "abc-token-xyz"})
        rank = job.find("sleep 5", count=2)[0]
        with open(f"/proc/{rank}/environ", "rb") as file:
            secret = dict(e.split(b"=", 1) for e in file.read().split(b"\0") if b"=" in e)[b"HVRUN_SECRET"]
        lines = "\n".join(job.processes().values())
        job.process.terminate()
        _, _, err = job.finish()
        self.assertNotIn(secret.decode(), lines + err.decode())
        self.assertNotIn("abc-token-xyz", lines + err.decode())


class Surroundings(unittest.TestCase):
    def test_standard_input_is_left_alone(self):
        loop = f"printf 'a\\nb\\nc\\n' | while read h; do {hvtest.binary('hvrun')} -np 1 true; echo $h; done"
        done = subprocess.run(["sh", "-c", loop], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "a\nb\nc\n", done)

    def test_closed_standard_streams(self):
        done = subprocess.run(["sh", "-c", f"{hvtest.binary('hvrun')} -np 2 cat <&- && echo fine"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "fine\n", done)
        done = subprocess.run(["sh", "-c", f"{hvtest.binary('hvrun')} -np 2 echo x >&- 2>&-; echo $?"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "0\n", done)

    def test_working_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            done = run_hvrun("-np", 1, "--no-prefix", "pwd", cwd=folder)
            self.assertEqual(done.out, folder + "\n")
            done = run_hvrun("-np", 1, "--no-prefix", "--wdir", folder, "sh", "-c", "pwd; echo $PWD")
            self.assertEqual(done.out, f"{folder}\n{folder}\n", done)
            os.mkdir(os.path.join(folder, "sub"))
            program = os.path.join(folder, "tool")
            with open(program, "w") as file:
                file.write("#!/bin/sh\necho found\n")
            os.chmod(program, 0o755)
            self.assertEqual(run_hvrun("-np", 1, "--no-prefix", "tool", cwd=folder).out, "found\n")

    def test_nothing_is_inherited_but_standard_streams(self):
        # But for the memory of the flight recorder, which a rank finds by that variable.
        show = ("import os; mine = set(os.listdir('/proc/self/fd'));"
                "print(sorted(int(f) for f in mine - {os.environ['HVRUN_RECORDER']}))")
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        done = run_hvrun("-np", 1, "--no-prefix", sys.executable, "-c", show, pass_fds=[writer])
        os.close(reader)
        os.close(writer)
        self.assertEqual(done.out, "[0, 1, 2, 3]\n", done)  # 3: the listing itself

    def test_grandchild_that_keeps_the_output_open(self):
        done = run_hvrun("-np", 2, "sh", "-c", "setsid sleep 100 & echo done")
        self.assertEqual(done.code, 0, done)
        self.assertLess(done.seconds, 15)

    def test_twenty_jobs_at_once(self):
        jobs = [hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "echo", "x") for _ in range(20)]
        for job in jobs:
            code, out, err = job.finish()
            self.assertEqual((code, out.count(b"x")), (0, 2), err)


class DryRun(unittest.TestCase):
    def test_prints_the_plan_and_starts_nothing(self):
        import json
        done = run_hvrun("--dry-run", "-H", "localhost:1,h2.test:2", "-x", "MY_TOKEN=hush", "nope")
        plan = json.loads(done.out)
        self.assertEqual([len(host["ranks"]) for host in plan["hosts"]], [1, 2])
        self.assertEqual([host["local"] for host in plan["hosts"]], [True, False])
        self.assertEqual(plan["environment"]["sent"]["MY_TOKEN"], "***")
        self.assertNotIn("hush", done.out)


if __name__ == "__main__":
    hvtest.main()
