"""The timeline: one file for all ranks, whole at any time, phases as Horovod names them."""

import json
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

ODD = hvtest.binary("odd_ranks")
LOOP = hvtest.binary("world_loop")


class Timeline(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "timeline.json")

    def tearDown(self):
        self.folder.cleanup()

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def named(self, events, name):
        return [event for event in events if event["name"] == name]

    def test_all_ranks_in_one_picture(self):
        done = hvtest.run_hvrun("-np", 3, "--timeline-filename", self.path, LOOP, 40)
        self.assertEqual((done.code, done.err), (0, ""), done)
        events = self.read()
        names = {e["pid"]: e["args"]["name"] for e in self.named(events, "process_name")}
        self.assertEqual(names, {r: f"rank {r} on localhost" for r in range(3)})
        reductions = self.named(events, "ALLREDUCE")
        for rank in range(3):
            self.assertEqual(len([e for e in reductions if e["pid"] == rank]), 40)
        for phase in ("NEGOTIATE_ALLREDUCE", "QUEUE", "MEMCPY_IN_FUSION_BUFFER"):
            self.assertEqual(len(self.named(events, phase)), 120, phase)
        self.assertTrue([e for e in events if e["name"].startswith("SHM_")])
        # Clocks are aligned: no rank has ended a batch before another has begun it.
        for batch in {e["args"]["batch"] for e in reductions}:
            mine = [e for e in reductions if e["args"]["batch"] == batch]
            self.assertEqual(len(mine), 3)
            self.assertLess(max(e["ts"] for e in mine), min(e["ts"] + e["dur"] for e in mine))

    def test_horovods_names_and_cycles(self):
        env = dict(os.environ, HOROVOD_TIMELINE=self.path, HOROVOD_TIMELINE_MARK_CYCLES="1")
        done = hvtest.run_hvrun("-np", 2, LOOP, 5, env=env)
        self.assertEqual(done.code, 0, done)
        self.assertGreaterEqual(len(self.named(self.read(), "CYCLE_START")), 5)

    def test_started_and_stopped_by_the_program(self):
        done = hvtest.run_hvrun("-np", 3, ODD, "trace", -1, self.path)
        self.assertEqual((done.code, done.err), (0, ""), done)
        events = self.read()
        rows = {e["args"]["name"] for e in self.named(events, "thread_name")}
        self.assertTrue({"traced", "also"} <= rows, rows)
        self.assertFalse({"g0", "g17", "not traced"} & rows, rows)
        self.assertEqual(len(self.named(events, "BROADCAST")), 3)

    def test_whole_after_kill_9(self):
        for victim in ("hvrun", "odd_ranks"):
            for _ in range(hvtest.repeats(20, usual=2)):
                job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, ODD, "steps", -1,
                                 env=dict(os.environ, HVRUN_TIMELINE=self.path))
                pids = job.find(victim)
                hvtest.wait_until(lambda: os.path.getsize(self.path) > 20000 if
                                  os.path.exists(self.path) else False, 20, "some events")
                os.kill(job.pid if victim == "hvrun" else sorted(pids)[-1], signal.SIGKILL)
                job.finish(30)
                job.expect_gone()
                self.assertGreater(len(self.named(self.read(), "ALLREDUCE")), 20)
                os.remove(self.path)

    def test_a_file_that_cannot_be_written(self):
        done = hvtest.run_hvrun("-np", 2, LOOP, 1,
                                env=dict(os.environ, HVRUN_TIMELINE="/proc/no/such/file"))
        self.assertEqual(done.code, 71, done)
        self.assertIn("/proc/no/such/file", done.err)
        done = hvtest.run_hvrun("-np", 2, ODD, "trace", -1, "/proc/no/such/file")
        self.assertEqual(done.code, 1, done)
        self.assertIn("cannot write the timeline /proc/no/such/file", done.err)


if __name__ == "__main__":
    hvtest.main()
