"""What Slurm sends to a job of hvrun: warnings, preemption, cancelling, requeueing. As an ordinary user."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import TREE, binary, wait_until  # noqa: E402
from slurm_lab import SlurmTest  # noqa: E402

SAVER = os.path.join(TREE, "tests", "programs", "saver.py")
KILL_WAIT = 5  # of the lab's slurm.conf
PREEMPTED = 78


class SignalsTest(SlurmTest):
    def setUp(self):
        self.log = os.path.join(self.home, "log")
        shutil.rmtree(self.log, ignore_errors=True)
        os.mkdir(self.log)
        os.chmod(self.log, 0o777)

    def saver(self, seconds=0.5, options="", before='exec "$HVRUN"', after=""):
        return self.script(f"{before} {options} /usr/bin/python3 {SAVER} {self.log} {seconds}\n{after}")

    def start(self, script, *arguments, ranks=4, env=None):
        job = self.sbatch("-N", "2", "-n", str(ranks), script, *arguments, env=env)
        self.wait_for_text("ready", count=ranks)
        return job

    def signals(self, ranks=4):
        return [self.output(f"log/rank.{rank}").split() for rank in range(ranks)]

    def exit_code(self, job, states="COMPLETED FAILED CANCELLED TIMEOUT"):
        code = self.wait_for_state(job, states)["ExitCode"]
        self.expect_quiet(5)
        return int(code.split(":")[0])


class SlurmSignals(SignalsTest):
    def test_a_warning_to_the_steps_reaches_each_rank_once(self):
        job = self.start(self.saver())
        self.as_user("scancel", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
        self.assertEqual(self.signals(), [["SIGUSR1", "saved"]] * 4)

    def test_a_warning_to_the_batch_script_reaches_each_rank_once(self):
        job = self.start(self.saver())
        self.as_user("scancel", "--batch", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
        self.assertEqual(self.signals(), [["SIGUSR1", "saved"]] * 4)

    def test_a_warning_to_both_reaches_each_rank_once(self):
        job = self.start(self.saver())
        self.as_user("scancel", "--full", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
        self.assertEqual(self.signals(), [["SIGUSR1", "saved"]] * 4)

    def test_a_warning_that_asks_for_no_end(self):
        job = self.start(self.saver(), ranks=2)
        self.as_user("scancel", "-s", "USR2", job)
        wait_until(lambda: self.signals(2) == [["SIGUSR2"]] * 2, 20, "USR2 at both ranks")
        self.as_user("scancel", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
        self.assertEqual(self.signals(2), [["SIGUSR2", "SIGUSR1", "saved"]] * 2)

    def test_the_code_and_the_signals_can_be_set(self):
        job = self.start(self.saver(options="--preempt-code 99 --preempt-signal SIGUSR1"), ranks=2)
        self.as_user("scancel", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), 99, self.output())

    def test_ranks_that_the_signal_kills(self):
        script = self.script('exec "$HVRUN" sh -c "echo ready; sleep 60"')
        job = self.start(script, ranks=2)
        self.as_user("scancel", "-s", "TERM", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())

    def test_a_preempted_job_saves_and_is_requeued(self):
        script = os.path.join(TREE, "scripts", "slurm", "preemptible.sbatch")
        job = self.start(script, "/usr/bin/python3", SAVER, self.log, "3", ranks=4)
        urgent = self.as_user("sbatch", "--parsable", "-p", "urgent", "-N", "3", "-n", "24", "-o", "/dev/null",
                              "--wrap", "sleep 1")
        self.wait_for_text("was preempted", seconds=40)
        self.assertEqual(self.signals(), [["SIGTERM", "saved"]] * 4, self.output())
        self.wait_for_state(urgent, "COMPLETED", 60)
        # Slurm holds a requeued job back for two minutes.
        wait_until(lambda: self.state(job)["JobState"] == "PENDING", 30, "the job is in the queue again")
        self.as_user("scontrol", "update", f"JobId={job}", "StartTime=now")
        state = self.wait_for_state(job, "COMPLETED", 90)
        self.assertEqual(state["Restarts"], "1", state)
        self.assertEqual(self.signals(), [["SIGTERM", "saved", "resumed"]] * 4, self.output())
        self.expect_quiet(5)

    def test_only_the_preempted_element_of_an_array_is_requeued(self):
        script = self.saver(options="--requeue-on-preempt")
        out = os.path.join(self.home, "element-%a")
        job = self.as_user("sbatch", "--parsable", "-a", "0-1", "-n", "1", "-o", out, script,
                           env={"HVRUN": binary("hvrun")})
        for element in (0, 1):
            self.wait_for_text("ready", f"element-{element}")
        self.as_user("scancel", "-s", "USR1", f"{job}_1")
        state = wait_until(lambda: next((s for s in [self.state(f"{job}_1")] if s["Restarts"] == "1"), None), 40,
                           "the element was requeued")
        self.assertEqual(self.state(f"{job}_0")["Restarts"], "0", state)
        self.assertEqual(self.state(f"{job}_0")["JobState"], "RUNNING")
        self.as_user("scancel", job)
        self.expect_quiet(KILL_WAIT + 5)

    def test_no_scontrol_for_the_requeue(self):
        tools = os.path.join(self.home, "tools")
        os.makedirs(tools, exist_ok=True)
        for tool in ("srun", "sh", "bash"):
            if not os.path.exists(f"{tools}/{tool}"):
                os.symlink(shutil.which(tool), f"{tools}/{tool}")
        script = self.saver(before=f'PATH={tools} exec "$HVRUN"', options="--requeue-on-preempt")
        job = self.start(script, ranks=2)
        self.as_user("scancel", "-s", "USR1", job)
        self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
        self.assertIn("the job is not back in the queue: scontrol requeue", self.output())

    def test_cancelling_leaves_nothing(self):
        stubborn = "trap '' TERM INT; setsid sleep 300 & echo ready; while true; do sleep 1; done"
        job = self.start(self.script(f'"$HVRUN" bash -c "{stubborn}"'), ranks=4)
        self.as_user("scancel", job)
        self.ended_within(KILL_WAIT + 5)

    def test_cancelling_gives_ranks_their_time(self):
        job = self.start(self.saver(seconds=3), ranks=2)
        self.as_user("scancel", job)
        wait_until(lambda: self.signals(2) == [["SIGTERM", "saved"]] * 2, 20, f"both saved: {self.output()}")
        self.ended_within(KILL_WAIT + 5)

    def test_hvrun_is_killed(self):
        job = self.start(self.script('"$HVRUN" sh -c "echo ready; sleep 300" & echo $! > ~/pid; wait'), ranks=4)
        node = self.state(job)["BatchHost"]
        self.lab.run(node, ["sh", "-c", f"kill -9 $(cat {self.home}/pid)"])
        self.wait_for_state(job, "COMPLETED FAILED CANCELLED")
        self.ended_within(14)


class ByProcessGroup(SignalsTest):
    """Where Slurm knows a step's processes by their process group only, it reaches the agents and no rank."""
    SETTINGS = ("ProctrackType=proctrack/pgid",)

    def test_a_warning_reaches_each_rank_once(self):
        for kind in ("-s", "--full"), ("-s",):
            self.setUp()
            job = self.start(self.saver())
            self.as_user("scancel", *kind[1:], kind[0], "USR1", job)
            self.assertEqual(self.exit_code(job), PREEMPTED, self.output())
            self.assertEqual(self.signals(), [["SIGUSR1", "saved"]] * 4)

    def test_cancelling_leaves_nothing(self):
        stubborn = "trap '' TERM INT; setsid sleep 300 & echo ready; while true; do sleep 1; done"
        job = self.start(self.script(f'"$HVRUN" bash -c "{stubborn}"'), ranks=4)
        self.as_user("scancel", job)
        self.ended_within(KILL_WAIT + 5)


if __name__ == "__main__":
    hvtest.main()
