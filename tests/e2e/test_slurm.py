"""hvrun inside real Slurm jobs: hosts, ranks, cards, where it was started from, errors. As an ordinary user."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from hvtest import TREE, binary  # noqa: E402
from slurm_lab import SlurmTest  # noqa: E402

PLACE = ("--no-prefix", "sh", "-c", "'echo $HVRUN_RANK: $(hostname) $HVRUN_LOCAL_RANK $HVRUN_LOCAL_SIZE "
         "$HVRUN_CROSS_RANK $HVRUN_CROSS_SIZE'")
CARDS = ("--no-prefix", "sh", "-c", "'echo $(hostname) $HVRUN_LOCAL_RANK $CUDA_VISIBLE_DEVICES $HVRUN_DEVICE'")


class Slurm(SlurmTest):
    def test_ranks_sit_where_srun_puts_tasks(self):
        for options in (["-N", 3, "-n", 7], ["-N", 2, "--ntasks-per-node=3"], ["-N", 3, "-n", 5, "-c", 2]):
            tasks = self.as_user("srun", *options, "--label", "hostname").splitlines()
            code, lines = self.hvrun_job(options, *PLACE)
            self.assertEqual(code, 0, lines)
            self.assertEqual(sorted(" ".join(line.split()[:2]) for line in lines), sorted(tasks))

    def test_rank_values_of_an_uneven_job(self):
        code, lines = self.hvrun_job(["-N", 3, "-n", 7, "-w", "h[1-3]"], *PLACE)
        hosts = {}
        for line in lines:
            rank, host, local, size, cross, crosses = line.replace(":", "").split()
            hosts.setdefault(host, []).append((int(local), int(size), int(cross), int(crosses), int(rank)))
        self.assertEqual((code, sum(map(len, hosts.values()))), (0, 7), lines)
        for ranks in hosts.values():
            self.assertEqual([r[0] for r in sorted(ranks)], list(range(len(ranks))))
            self.assertEqual({r[1] for r in ranks}, {len(ranks)})
        for local in range(max(map(len, hosts.values()))):
            crosses = sorted(r[2:4] for ranks in hosts.values() for r in ranks if r[0] == local)
            self.assertEqual(crosses, [(i, len(crosses)) for i in range(len(crosses))])

    def test_variables_of_slurm_are_those_of_a_task(self):
        code, lines = self.hvrun_job(["-N", 2, "-n", 4, "-c", 2], "--no-prefix", "sh", "-c",
                                     "'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS "
                                     "$SLURM_CPUS_PER_TASK $SLURMD_NODENAME'")
        self.assertEqual(code, 0, lines)
        fields = [line.split() for line in lines]
        self.assertEqual([f[0] for f in fields], list("0123"))
        self.assertEqual({(f[3], f[4]) for f in fields}, {("4", "2")})
        self.assertEqual({(f[2], f[5]) for f in fields}, {("0", fields[0][5]), ("1", fields[3][5])})

    def test_more_ranks_than_tasks_up_to_the_cores(self):
        code, lines = self.hvrun_job(["-N", 2, "--ntasks-per-node=1", "-c", 4], "-np", "4", "--no-prefix", "hostname")
        self.assertNotEqual(code, 0, lines)  # a rank takes 4 cores
        self.assertIn("not enough slots", "\n".join(lines))
        code, lines = self.hvrun_job(["-N", 2, "-n", 4], "-np", "3", "--no-prefix", "hostname")
        self.assertEqual((code, len(lines)), (0, 3), lines)

    def test_hosts_of_the_job_in_another_order(self):
        code, lines = self.hvrun_job(["-N", 3, "-n", 6], "-H", "h3:1,h1:2", *PLACE)
        self.assertEqual(code, 0, lines)
        self.assertEqual([line.split()[:3] for line in lines],
                         [["0:", "h3", "0"], ["1:", "h1", "0"], ["2:", "h1", "1"]])

    def test_cards_of_a_task(self):
        one_each = ["h1 0 0 0", "h1 1 1 0", "h2 0 0 0", "h2 1 1 0"]
        all_seen = ["h1 0 0,1,2,3 0", "h1 1 0,1,2,3 1", "h2 0 0,1,2,3 0", "h2 1 0,1,2,3 1"]
        for options, expected in (
                (["--gpus-per-task=1"], one_each),
                (["--gpus-per-node=4"], all_seen),
                (["--gpus-per-node=4", "--gpu-bind=none"], all_seen),
                (["--gpus-per-node=4", "--gpu-bind=closest"], all_seen),
                (["--gpus-per-node=4", "--gpu-bind=single:1"], one_each),
                (["--gpus-per-node=4", "--gpu-bind=map_gpu:2,1"],
                 ["h1 0 2 0", "h1 1 1 0", "h2 0 2 0", "h2 1 1 0"]),
                (["--gpus-per-task=2"], ["h1 0 0,1 0", "h1 1 2,3 0", "h2 0 0,1 0", "h2 1 2,3 0"])):
            options = ["-N", 2, "--ntasks-per-node=2", "-w", "h[1-2]", *options]
            code, lines = self.hvrun_job(options, *CARDS)
            self.assertEqual((code, lines), (0, expected), options)
            if "--gpu-bind=none" in options:  # srun then tells a task nothing: it may use all of them
                continue
            tasks = self.as_user("srun", *options, "sh", "-c",
                                 "echo $(hostname) $SLURM_LOCALID $CUDA_VISIBLE_DEVICES").splitlines()
            self.assertEqual(sorted(tasks), [line.rpartition(" ")[0] for line in lines], options)

    def test_verbose_tells_which_rank_has_which_card(self):
        code, lines = self.hvrun_job(["-N", 2, "--ntasks-per-node=2", "-w", "h[1-2]", "--gpus-per-task=1"],
                                     "--verbose", "true")
        text = "\n".join(lines)
        self.assertEqual(code, 0, text)
        self.assertIn("rank 3 on h2: CUDA_VISIBLE_DEVICES=1, card 0 of these", text)

    def test_cores_of_a_task(self):
        """Where -c cores for each rank are just what the agent may use, each rank gets its own; else they share."""
        cores = sorted(os.sched_getaffinity(0))
        if not 2 <= len(cores) <= 8:
            self.skipTest("the pretended nodes have 8 cores")

        def masks(ranks, *flags, each=1):
            code, lines = self.hvrun_job(["-N", 1, "-n", ranks, "-c", each], *flags, "--no-prefix", "/usr/bin/python3",
                                         "-c", "'import os; print(*sorted(os.sched_getaffinity(0)))'")
            self.assertEqual((code, len(lines)), (0, ranks), lines)
            return [set(map(int, line.split())) for line in lines]
        own = masks(len(cores))
        self.assertEqual((sum(map(len, own)), set.union(*own)), (len(cores), set(cores)))
        self.assertEqual(masks(1, each=len(cores)), [set(cores)])
        self.assertEqual(masks(1), [set(cores)])  # the others are another job's, or nobody's
        self.assertEqual(masks(len(cores), "--bind", "none"), [set(cores)] * len(cores))

    def test_cards_of_nodes_that_have_not_equally_many(self):
        code, lines = self.hvrun_job(["-N", 2, "-n", 4, "-w", "h[1-2]", "--gpus-per-task=1"], *CARDS)
        self.assertEqual((code, lines), (0, ["h1 0 0 0", "h1 1 1 0", "h1 2 2 0", "h2 0 0 0"]))

    def test_from_a_login_node(self):
        done = self.as_user("salloc", "-N", 2, "-n", 2, "-w", "h[1-2]", binary("hvrun"), "--no-prefix", "hostname")
        self.assertEqual(sorted(line for line in done.split() if line in ("h1", "h2", "h3")), ["h1", "h2"])

    def test_a_terminal_of_a_step_that_holds_the_allocation(self):
        inner = f"srun -n1 -N1 --pty {binary('hvrun')} -np 2 --no-prefix hostname"
        done = self.as_user("salloc", "-N", 2, "-n", 4, "script", "-qec", inner, "/dev/null")
        self.assertEqual(len(re.findall(r"\bh[123]\b", done)), 2, done)

    def test_the_decision_is_told_and_can_be_overridden(self):
        code, lines = self.hvrun_job(["-N", 2, "-n", 2], "--verbose", "--no-prefix", "hostname")
        text = "\n".join(lines)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"launcher: slurm \(Slurm job \d+ on 2 nodes\)")
        code, lines = self.hvrun_job(["-N", 2, "-n", 2], "--launcher", "local", "-np", "3", "--verbose",
                                     "--no-prefix", "hostname")
        text = "\n".join(lines)
        self.assertIn("launcher: local (asked for by --launcher local)", text)
        self.assertEqual(len([line for line in lines if line in ("h1", "h2", "h3")]), 3, text)
        code, lines = self.hvrun_job(["-N", 2, "-n", 2, "-w", "h[1-2]"], "--launcher", "ssh", "-H", "h1,h2",
                                     "--no-prefix", "hostname")
        self.assertEqual((code, lines), (0, ["h1", "h2"]))

    def test_variables_of_a_job_that_has_ended(self):
        job = self.sbatch("-N", "1", self.script("env | grep ^SLURM > ~/left"))
        self.wait_for_state(job, "COMPLETED")
        left = dict(line.split("=", 1) for line in self.output("left").splitlines())
        left.pop("SLURM_CONF", None)
        done = self.lab.run("h1", [binary("hvrun"), "-np", "2", "--no-prefix", "hostname"], user="ann", env=left)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["h1", "h1"]), done.stderr)
        self.assertIn(f"SLURM_JOB_ID={job} is set, but Slurm knows no such running job", done.stderr)

    def test_srun_in_front_of_hvrun(self):
        done = self.lab.run("h0", ["srun", "-n", "2", "-N", "2", binary("hvrun"), "hostname"], user="ann")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("srun has started hvrun 2 times", done.stderr)

    def test_a_rank_that_fails(self):
        code, lines = self.hvrun_job(["-N", 2, "-n", 4], "sh", "-c",
                                     "'[ $HVRUN_RANK = 3 ] && { echo broke >&2; exit 7; }; sleep 60'")
        text = "\n".join(lines)
        self.assertEqual(code, 7, text)
        for word in ("rank 3", "exited with code 7", "broke"):
            self.assertIn(word, text)

    def test_an_agent_that_is_not_on_the_nodes(self):
        copy = self.lab.run("h1", ["sh", "-c", f"mkdir -p /tmp/only && cp {binary('hvrun')} {binary('hvagent')} /tmp/only"])
        self.assertEqual(copy.returncode, 0, copy.stderr)
        code, lines = self.hvrun_job(["-N", 2, "-n", 2, "-w", "h[1-2]"], "hostname", env={"HVRUN": "/tmp/only/hvrun"})
        text = "\n".join(lines)
        self.assertEqual(code, 71, text)
        self.assertIn("h2", text)
        self.assertIn("No such file", text)

    def test_the_spawner_conforms_with_real_srun(self):
        done = self.lab.run("h0", ["env", f"TMPDIR={self.home}", "salloc", "--quiet", "-N", "3", "-n", "3",
                                   binary("spawner_conformance"), "--gtest_filter=*/Slurm"], user="ann", cwd=self.home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"PASSED  \] \d+ tests")

    def test_training_across_nodes(self):
        code, lines = self.hvrun_job(["-N", 2, "-n", 4], binary("train"), "--epochs", "1", seconds=90)
        self.assertEqual(code, 0, lines)


class Scripts(SlurmTest):
    def run_script(self, name, *words, env=None):
        return self.batch(os.path.join(TREE, "scripts", "slurm", name), *words, env=env)

    def test_cpu(self):
        code, text = self.run_script("cpu.sbatch", "--no-prefix", "sh", "-c", "echo rank $HVRUN_RANK on $(hostname)")
        self.assertEqual(code, 0, text)
        ranks = sorted(line for line in text.splitlines() if line.startswith("rank"))
        tasks = self.as_user("srun", "-N", 2, "--ntasks-per-node=4", "--label", "hostname").splitlines()
        self.assertEqual(ranks, sorted("rank " + task.replace(":", " on") for task in tasks))

    def test_gpu(self):
        code, text = self.run_script("gpu.sbatch", "--no-prefix", "sh", "-c",
                                     "echo card $HVRUN_LOCAL_RANK $CUDA_VISIBLE_DEVICES $HVRUN_DEVICE")
        self.assertEqual(code, 0, text)
        cards = sorted(line for line in text.splitlines() if line.startswith("card"))
        self.assertEqual(cards, sorted([f"card {i} {i} 0" for i in range(4)] * 2))

    def test_array(self):
        out = os.path.join(self.home, "array-%a")
        job = self.as_user("sbatch", "--parsable", "-o", out, os.path.join(TREE, "scripts", "slurm", "array.sbatch"),
                           "--no-prefix", "sh", "-c", 'echo rank $HVRUN_RANK of element $2', "-",
                           env={"HVRUN": binary("hvrun")})
        for element in ("0", "1"):
            self.wait_for_state(f"{job}_{element}", "COMPLETED")
            self.assertEqual(sorted(self.output(f"array-{element}").splitlines()),
                             [f"rank {rank} of element {element}" for rank in (0, 1)])
        self.expect_quiet(5)


if __name__ == "__main__":
    hvtest.main()
