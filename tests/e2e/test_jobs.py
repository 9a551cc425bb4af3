"""Jobs from elsewhere: --detach, --list, --status, --attach, --stop; and the story in --report."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.folder)

    def hvrun(self, *args, timeout=60):
        done = subprocess.run([hvtest.binary("hvrun"), *map(str, args)], env=self.env, text=True,
                              capture_output=True, timeout=timeout)
        return done.returncode, done.stdout, done.stderr

    def detach(self, *args):
        code, out, err = self.hvrun("--detach", *args)
        self.assertEqual(code, 0, err)
        name = out.strip()
        self.assertRegex(name, r"^[0-9a-f]{8}$")
        self.addCleanup(self.hvrun, "--stop", name)
        return name

    def test_a_detached_job_from_start_to_end(self):
        name = self.detach("-np", 2, "sh", "-c", "echo hello $RANK; echo oops >&2; sleep 1; exit 4")
        code, out, _ = self.hvrun("--list")
        self.assertEqual(code, 0)
        self.assertRegex(out, rf"{name} .*running .*-np 2 sh -c 'echo hello")
        self.assertIn("state    running", self.hvrun("--status", name[:5])[1])
        code, out, err = self.hvrun("--attach", name)
        self.assertEqual(code, 4)
        self.assertEqual(sorted(out.splitlines()), ["[0]<stdout>:hello 0", "[1]<stdout>:hello 1"])
        self.assertIn("[1]<stderr>:oops", err)
        self.assertIn("exited with code 4", err)
        code, out, _ = self.hvrun("--status", name)
        self.assertEqual(code, 4)
        self.assertIn("ended with code 4", out)
        self.assertEqual(self.hvrun("--attach", name)[0], 4)  # again, when all is over

    def test_stop(self):
        name = self.detach("-np", 2, "sleep", 600)
        hvtest.wait_until(lambda: self.hvrun("--list")[1].count("running") == 1, 10, "the job on the list")
        self.assertEqual(self.hvrun("--stop", name)[0], 0)
        self.assertEqual(self.hvrun("--status", name)[0], 143)
        code, _, err = self.hvrun("--stop", name)
        self.assertEqual(code, 2)
        self.assertIn("ended with code 143", err)

    def test_goes_on_without_the_session_that_started_it(self):
        script = f"{hvtest.binary('hvrun')} --detach -np 1 sh -c 'sleep 1; echo done'; kill -HUP 0"
        shell = subprocess.run(["setsid", "sh", "-c", script], env=self.env, text=True,
                               stdout=subprocess.PIPE, timeout=60)
        code, out, _ = self.hvrun("--attach", shell.stdout.strip())
        self.assertEqual((code, out), (0, "[0]<stdout>:done\n"))

    def test_killed_and_unknown_jobs(self):
        name = self.detach("-np", 1, "sleep", 600)
        pid = int(self.hvrun("--status", name)[1].split("pid")[1].split()[0])
        os.kill(pid, signal.SIGKILL)
        hvtest.wait_until(lambda: "was killed" in self.hvrun("--status", name)[1], 10, "its state")
        self.assertEqual(self.hvrun("--attach", name)[0], 137)
        code, _, err = self.hvrun("--status", "nope")
        self.assertEqual(code, 2)
        self.assertIn("there is no job 'nope'", err)

    def test_jobs_with_a_terminal_are_on_the_list_while_they_run(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "sleep", 600, env=self.env)
        hvtest.wait_until(lambda: "sleep 600" in self.hvrun("--list")[1], 10, "the job on the list")
        name = self.hvrun("--list")[1].split()[0]
        code, _, err = self.hvrun("--attach", name)
        self.assertEqual(code, 2)
        self.assertIn("not started with --detach", err)
        self.assertEqual(self.hvrun("--stop", name)[0], 0)
        self.assertEqual(job.finish()[0], 143)
        self.assertEqual(self.hvrun("--list")[1], "")
        self.assertEqual(os.listdir(os.path.join(self.folder, "hvrun")), [])

    def test_a_folder_of_somebody_else_is_not_used(self):
        os.mkdir(os.path.join(self.folder, "hvrun"), 0o777)
        os.chmod(os.path.join(self.folder, "hvrun"), 0o777)
        code, _, err = self.hvrun("--detach", "-np", 1, "true")
        self.assertEqual(code, 71)
        self.assertIn("does not belong to this user alone", err)
        self.assertEqual(self.hvrun("-np", 1, "true")[::2], (0, ""))


class Report(unittest.TestCase):
    def story(self, *args):
        with tempfile.NamedTemporaryFile() as file:
            done = run_hvrun("--report", file.name, *args)
            return done, json.load(file)

    def test_good_job(self):
        done, story = self.story("-np", 3, "-H", "localhost:2,127.0.0.1:1", "sh", "-c", "exit 0")
        self.assertEqual((done.code, story["exit_code"], story["cause"]), (0, 0, None))
        times = story["seconds"]
        self.assertLess(0, times["agents_up"])
        self.assertTrue(times["agents_up"] <= times["launched"] <= times["ranks_started"] <= times["ended"])
        self.assertEqual([len(host["ranks"]) for host in story["hosts"]], [2, 1])
        for host in story["hosts"]:
            for rank in host["ranks"]:
                self.assertEqual(rank["exit_code"], 0)
                self.assertGreater(rank["pid"], 0)
                self.assertLessEqual(rank["started_s"], rank["ended_s"])

    def test_failed_job(self):
        done, story = self.story("-np", 2, "sh", "-c", "[ $RANK = 0 ] && exec sleep 60; echo why >&2; kill -9 $$")
        self.assertEqual((done.code, story["exit_code"]), (137, 137))
        cause = story["cause"]
        self.assertEqual((cause["kind"], cause["rank"], cause["last_lines"]), ("rank", 1, ["why"]))
        ranks = story["hosts"][0]["ranks"]
        self.assertEqual(ranks[1]["signal"], "SIGKILL")
        self.assertTrue(ranks[0]["asked_to_end"])

    def test_unwritable(self):
        done = run_hvrun("--report", "/nope/x", "-np", 1, "true")
        self.assertEqual(done.code, 2)
        self.assertIn("--report: cannot write /nope/x", done.err)


if __name__ == "__main__":
    hvtest.main()
