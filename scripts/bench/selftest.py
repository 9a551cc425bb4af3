"""Tests of the benchmark scripts: the arithmetic, the reading of outputs, what is said where a program
is absent, hangs or fails, and that the peers compile. Times nothing.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import cases
import measuring
import programs
import report
import stopwatch
from measuring import MIB, Bar, Case, Sizes


def case_of(*bars, unit="us"):
    labels = {b.series for b in bars} | {a for b in bars for a in b.against}
    return Case("case", "title", (), {label: None for label in sorted(labels)}, bars, unit=unit)


class Arithmetic(unittest.TestCase):
    def verdicts(self, bar, samples):
        return [row.verdict for row in measuring.judge(case_of(bar), samples)]

    def test_sizes_include_both_ends(self):
        self.assertEqual(list(Sizes(8, 64, 1, 1).all()), [8, 16, 32, 64])
        self.assertEqual(list(Sizes(8, 64, 1, 1, factor=4).all()), [8, 32])
        self.assertEqual(list(Sizes(4, 4, 1, 1).all()), [4])

    def test_ratio_of_medians_to_the_faster_peer(self):
        row, = measuring.judge(case_of(Bar("hvrun", 0.75, ("a", "b"))),
                               {"hvrun": {8: [1, 2, 30]}, "a": {8: [9, 4, 4]}, "b": {8: [5, 5, 5]}})
        self.assertEqual((row.value, row.against, row.reference, row.ratio), (2, "a", 4, 0.5))
        self.assertEqual(row.spread, (1 / 9, 7.5))
        self.assertEqual(row.verdict, "ok")

    def test_a_bar_is_met_at_its_limit_and_missed_above(self):
        bar = Bar("hvrun", 0.5, ("a",))
        self.assertEqual(self.verdicts(bar, {"hvrun": {8: [2]}, "a": {8: [4]}}), ["ok"])
        self.assertEqual(self.verdicts(bar, {"hvrun": {8: [2.1]}, "a": {8: [4]}}), ["short"])

    def test_bar_without_peers_is_absolute(self):
        self.assertEqual(self.verdicts(Bar("hvrun", 20), {"hvrun": {4: [19]}}), ["ok"])
        self.assertEqual(self.verdicts(Bar("hvrun", 0), {"hvrun": {0: [1]}}), ["short"])

    def test_bars_hold_for_their_sizes_only(self):
        samples = {"hvrun": {8: [1], 64: [1]}}
        self.assertEqual(self.verdicts(Bar("hvrun", 2, low=64), samples), ["ok"])
        self.assertEqual(self.verdicts(Bar("hvrun", 2, high=7), samples), [])

    def test_what_did_not_run_is_missing_not_met(self):
        bar = Bar("hvrun", 1.0, ("a", "b"))
        self.assertEqual(self.verdicts(bar, {"a": {8: [4]}, "b": {8: [4]}}), ["missing"])
        self.assertEqual(self.verdicts(bar, {"hvrun": {8: [4]}}), ["missing"])
        # The absent peer might have been the faster one; slower than one is short all the same.
        self.assertEqual(self.verdicts(bar, {"hvrun": {8: [4]}, "a": {8: [5]}}), ["missing"])
        self.assertEqual(self.verdicts(bar, {"hvrun": {8: [6]}, "a": {8: [5]}}), ["short"])

    def test_limits(self):
        # 2 MiB over a link of 1 Gbit/s between two hosts; four hosts move half as much again.
        self.assertAlmostEqual(measuring.wire_limit_us(2 * MIB, 2, 1e9), 17542, delta=1)
        self.assertAlmostEqual(measuring.wire_limit_us(2 * MIB, 4, 1e9), 26313, delta=1)
        self.assertAlmostEqual(measuring.memory_limit_us(10**9, 40), 100_000)

    def test_half_types_compare_at_the_same_count(self):
        twice = cases.at_same_count(lambda sizes: {size: size for size in sizes.all()}, 2)
        self.assertEqual(twice(Sizes(8, 16, 1, 1)), {8: 16, 16: 32})

    def test_choosing(self):
        known = [Case(n, "", (), {}, ()) for n in ("shm2", "shm2-alloc", "half-a", "half-b")]
        names = [c.name for c in measuring.choose(known, ["half", "shm2", "half-a"])]
        self.assertEqual(names, ["half-a", "half-b", "shm2"])
        with self.assertRaisesRegex(ValueError, "no case hm2; there are shm2, "):
            measuring.choose(known, ["hm2"])


class Cases(unittest.TestCase):
    def test_every_bar_names_series_that_exist(self):
        for case in cases.make_cases(programs.Programs("/nowhere", "/nowhere"), None):
            self.assertTrue(case.bars, case.name)
            for bar in case.bars:
                self.assertLessEqual({bar.series, *bar.against}, set(case.series), case.name)
            # Every size has a bar, and every bar a size.
            sizes = [size for part in case.sizes for size in part.all()]
            for size in sizes:
                self.assertTrue(any(b.low <= size <= b.high for b in case.bars), (case.name, size))
            for bar in case.bars:
                self.assertTrue(any(bar.low <= s <= bar.high for s in sizes), (case.name, bar))


class Running(unittest.TestCase):
    def test_lines_of_launchers_are_skipped(self):
        text = 'Warning: Permanently added h1\n{"bytes": 8, "time_us": 1.5, "wrong": 0}\n'
        self.assertEqual(programs.times(programs.records(text)), {8: 1.5})

    def test_bad_output_is_a_failure(self):
        for text, what in (("{broken\n", "not a JSON line"), ("", "printed no result"),
                           ('{"bytes": 8, "time_us": 1, "wrong": 3}\n', "3 wrong elements")):
            with self.assertRaisesRegex(programs.Failed, what):
                programs.times(programs.records(text))

    def test_a_failing_program_is_told_with_its_last_words(self):
        with self.assertRaisesRegex(programs.Failed, "exited 3: oh no"):
            programs.run_all([["sh", "-c", "echo oh no >&2; exit 3"]], 20)

    def test_a_hanging_program_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "child")
            with self.assertRaisesRegex(programs.Failed, "hung"):
                programs.run_all([["sh", "-c", f"sleep 600 & echo $! > {note}; wait"]], 1)
            with open(note) as file:
                child = int(file.read())
        for _ in range(50):
            if not os.path.exists(f"/proc/{child}") or "Z" in state(child):
                return
            time.sleep(0.1)
        self.fail(f"process {child} is still there: {state(child)}")

    def test_an_absent_peer_is_told_with_its_packages(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(programs, "absent", lambda _: "libsome-dev"):
            known = programs.Programs(folder, folder)
            known.build_peers()
            for run in (programs.Place(known, 2).openmpi(), programs.Place(known, 2).gloo()):
                with self.assertRaisesRegex(programs.Failed, "install-deps --bench .* libsome-dev"):
                    run(Sizes(8, 8, 1, 1))

    def test_hvrun_that_is_not_built_is_told(self):
        known = programs.Programs("/nowhere", "/nowhere")
        with self.assertRaisesRegex(programs.Failed, "cmake --build /nowhere --target hvrun"):
            programs.Place(known, 2).hvbench()(Sizes(8, 8, 1, 1))

    def test_sourcescompile_without_warnings(self):
        sources = {**programs.PEERS, "idle": (
            "idle.cc", "c++", ["-I", os.path.join(programs.TREE, "runtime", "include")])}
        for program, (source, compiler, flags, *_) in sources.items():
            if program in programs.PEERS and programs.absent(program):
                print(f"{program}: not installed, not compiled", file=sys.stderr)
                continue
            with self.subTest(program):
                path = os.path.join(programs.HERE, "peers", source)
                done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-Werror",
                                       *programs.WARNINGS, path, *flags],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_stopwatch_takes_turns_and_counts_failures_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            result = stopwatch.run({"times": 2, "timeout": 20, "programs": {
                "a": [["sh", "-c", f"echo a >> {log}"]],
                "b": [["sh", "-c", f"echo b >> {log}; exit 5"]]}})
            with open(log) as file:
                self.assertEqual(file.read().split(), ["a", "b"] * 3)
        self.assertEqual(len(result["a"]["ms"]), 2)
        self.assertEqual(result["b"], {"ms": [], "hung": 0, "failed": ["exit code 5"] * 3})

    def test_stopwatch_counts_a_hang_as_its_timeout(self):
        self.assertEqual(stopwatch.run_once([["sleep", "600"]], 0.1), (100, 0, True))


class Reports(unittest.TestCase):
    CASE = case_of(Bar("hvrun", 0.75, ("peer",)), Bar("hvrun", 90))
    SAMPLES = {"hvrun": {2 * MIB: [50, 70], 4 * MIB: [100, 100]},
               "peer": {2 * MIB: [100, 100], 4 * MIB: [100, 100]}}

    def results(self):
        return [(self.CASE, self.SAMPLES, measuring.judge(self.CASE, self.SAMPLES), {})]

    def test_table(self):
        lines = report.table(*self.results()[0][:3]).splitlines()
        self.assertEqual(lines[1], "case: title (us)")
        self.assertEqual([line.split() for line in lines[3:]], [
            "2 MiB 60.00 100 hvrun / peer 0.60 (0.50-0.70) 0.75 ok".split(),
            "hvrun 60.00 90 ok".split(),
            "4 MiB 100 100 hvrun / peer 1.00 (1.00-1.00) 0.75 short".split(),
            "hvrun 100 90 short".split()])

    def test_json_and_exit_code(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("builtins.print"):
            path = os.path.join(folder, "result")
            self.assertEqual(report.finish(path, {"load": 1}, self.results()), 1)
            with open(path + ".json") as file:
                document = json.load(file)
        case, = document["cases"]
        self.assertEqual(case["series"]["hvrun"][str(2 * MIB)], [50, 70])
        self.assertEqual([b["verdict"] for b in case["bars"]], ["ok", "ok", "short", "short"])

    def test_nothing_measured_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("builtins.print"):
            path = os.path.join(folder, "result")
            self.assertEqual(report.finish(path, {}, [(self.CASE, {}, [], {})]), 1)

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plot.svg")
            self.assertEqual(report.write_plot(path, self.results()), f"plot: {path}")
            with open(path) as file:
                self.assertIn("case: title", file.read())


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"
