"""Jobs on many hosts, which are all this machine: --launch-agent gives each an agent of its own."""

import json
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402

LOOP = hvtest.binary("world_loop")
PATIENT = ["--start-timeout", 120, "--no-prefix"]
FOR_EVER = 10**9


class ManyHosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.report = os.path.join(self.folder, "report.json")

    def on(self, hosts, slots, *options, lost_after=60):
        names = [f"p{i}" for i in range(hosts)]
        return [*PATIENT, "--lost-after", lost_after, *hvtest.pretended_hosts(self.folder, names, slots), *options]

    def run_on(self, hosts, slots, *args):
        return hvtest.run_hvrun(*self.on(hosts, slots, "--report", self.report, *args), timeout=170)

    def links(self):
        """How each agent came home, in the order of hosts."""
        with open(self.report, encoding="utf-8") as file:
            return [host["link"] for host in json.load(file)["hosts"]]

    def start_tree(self, **on):
        """Seven hosts, of which p0 relays p2 and p4, p1 p3 and p5, and p2 p6; all ranks are in."""
        job = hvtest.Job(hvtest.binary("hvrun"), *self.on(7, 1, "--fanout", 2, **on), LOOP, FOR_EVER,
                         "tell", 6, 0)
        self.addCleanup(job.kill_all)
        self.assertEqual(job.process.stdout.readline(), b"joined\n")
        return job

    def agent_of(self, job, host):
        """The pid of the agent, by a rank of its host."""
        for pid, line in job.processes().items():
            if line.startswith("world_loop"):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"HVRUN_HOST={host}".encode() in file.read().split(b"\0"):
                        return job.parent_of(pid)
        raise AssertionError(f"no rank on {host}")

    def expect_lost(self, job, host, text):
        code, _, err = job.finish(timeout=60)
        err = err.decode(errors="replace")
        self.assertEqual(code, 73, err)
        block = err[err.rindex("hvrun: "):]
        self.assertIn(f"host {host} is lost", block, err)
        self.assertIn(text, block)
        job.expect_gone(12)

    def test_hosts_of_one_machine_are_hosts(self):
        done = self.run_on(8, 2, LOOP, 20, "places", -1, 0)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertEqual(sorted(done.out.splitlines()),
                         sorted(f"rank {rank}: local {rank % 2} of 2, cross {rank // 2} of 8"
                                for rank in range(16)))

    def test_flat_and_tree_around_the_fanout(self):
        sizes = [31, 32, 33, 63, 64, 65, 128] if hvtest.SOAK else [3, 4, 5, 9]
        fanout = 32 if hvtest.SOAK else 4
        for hosts in sizes:
            for width in (0, fanout):
                with self.subTest(hosts=hosts, fanout=width):
                    done = self.run_on(hosts, 1, "--fanout", width, LOOP, 3, "places", -1, 0)
                    self.assertEqual((done.code, done.err), (0, ""), done)
                    self.assertEqual(len(done.out.splitlines()), hosts, done)
                    relayed = sum(link.startswith("relay ") for link in self.links())
                    self.assertEqual(relayed, max(0, hosts - width) if width else 0, self.links())

    def test_three_levels_carry_output_input_and_exit_codes(self):
        lines = 2000
        script = (f"cat > /dev/null; for i in $(seq {lines}); do echo $HVRUN_RANK $i; done; "
                  "[ $HVRUN_RANK != 6 ] || exit 9")
        done = self.run_on(7, 1, "--fanout", 2, "--stdin", "all", "sh", "-c", script)
        self.assertEqual(done.code, 9, done)
        self.assertIn("rank 6 on p6", done.err)
        self.assertEqual(self.links()[6], "relay p2")
        numbers = [line.split() for line in done.out.splitlines()]
        for rank in range(7):
            mine = [int(i) for who, i in numbers if who == str(rank)]
            self.assertEqual(mine, list(range(1, len(mine) + 1)))
            if rank == 6:
                self.assertEqual(len(mine), lines)

    def test_a_relay_that_dies(self):
        for _ in range(hvtest.repeats(20, usual=1)):
            job = self.start_tree()
            os.kill(self.agent_of(job, "p0"), signal.SIGKILL)
            self.expect_lost(job, "p0", "")

    def test_a_relay_that_hangs(self):
        job = self.start_tree(lost_after=5)
        relay = self.agent_of(job, "p0")
        os.kill(relay, signal.SIGSTOP)
        self.expect_lost(job, "p0", "no sign of life")

    def test_an_agent_behind_relays_that_dies(self):
        job = self.start_tree()
        os.kill(self.agent_of(job, "p6"), signal.SIGKILL)
        self.expect_lost(job, "p6", "")

    def test_hvrun_dies(self):
        job = self.start_tree()
        os.kill(job.pid, signal.SIGKILL)
        job.finish()
        job.expect_gone(12)


if __name__ == "__main__":
    hvtest.main()
