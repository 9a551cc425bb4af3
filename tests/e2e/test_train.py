"""The example job: it learns, alike on any number of ranks, repeats bit for bit, and resumes."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

RATE = re.compile(r"  samples/s \d+")  # the only part of the output that may differ
PREFIX = "[0]<stdout>:"


def without_rates(text):
    return [RATE.sub("", line.removeprefix(PREFIX)) for line in text.splitlines()]


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "train.json")
        self.checkpoints = os.path.join(folder.name, "checkpoints")

    def train(self, ranks, *flags):
        """(lines without rates, JSON records) of a run that succeeds."""
        done = run_hvrun("-np", ranks, hvtest.binary("train"), "--json", self.json, *flags,
                         timeout=120)
        self.assertEqual(done.code, 0, done)
        with open(self.json, encoding="ascii") as file:
            return without_rates(done.out), [json.loads(line) for line in file]

    def final(self, ranks, *flags):
        return self.train(ranks, *flags)[1][-1]

    def assert_close(self, value, expected, tolerance):
        self.assertLess(abs(value - expected) / expected, tolerance, (value, expected))

    def test_learns_alike_on_any_number_of_ranks(self):
        finals = {ranks: self.final(ranks) for ranks in (1, 2, 3, 4, 8)}
        for ranks, final in finals.items():
            self.assertEqual(final["ranks"], ranks)
            self.assertGreaterEqual(final["test_accuracy"], 0.95)
            self.assert_close(final["loss"], finals[1]["loss"], 1e-4)

    def test_batches_too_small_for_all_ranks(self):
        # 1,438 rows leave a last batch of 3 for 8 ranks here, and one of 1 row below.
        for batch in (35, 479):
            flags = ("--global-batch", batch, "--epochs", 4)
            self.assert_close(self.final(8, *flags)["loss"], self.final(1, *flags)["loss"], 1e-4)

    def test_repeats_bit_for_bit(self):
        first = self.train(4, "--epochs", 5)
        again = self.train(4, "--epochs", 5)
        other = self.train(4, "--epochs", 5, "--seed", 2)
        self.assertEqual(first[0], again[0])
        self.assertEqual([record["loss"] for record in first[1]],
                         [record["loss"] for record in again[1]])
        self.assertNotEqual(first[1][-1]["loss"], other[1][-1]["loss"])

    def test_output(self):
        lines, records = self.train(2, "--epochs", 3)
        self.assertEqual(len(lines), 4, lines)
        for epoch, line in enumerate(lines[:3], 1):
            self.assertRegex(line, rf"^epoch {epoch}/3  loss \d+\.\d+  accuracy 0\.\d+$")
        self.assertRegex(lines[3], r"^test accuracy 0\.\d+  loss \d+\.\d+  ranks 2$")
        self.assertEqual([record["epoch"] for record in records[:3]], [1, 2, 3])
        for epoch, line in zip(records[:3], lines):
            self.assertIn(f"loss {epoch['loss']:.8f}", line)
            self.assertGreater(epoch["samples_per_s"], 0)
        self.assertIn(f"test accuracy {records[3]['test_accuracy']:.4f}", lines[3])
        self.assertGreater(records[0]["loss"], records[2]["loss"])

    def test_compression_changes_little(self):
        exact = self.final(3)
        for kind in ("fp16", "bf16"):
            final = self.final(3, "--compression", kind)
            self.assertGreaterEqual(final["test_accuracy"], 0.95)
            self.assert_close(final["loss"], exact["loss"], 0.02)
            self.assertNotEqual(final["loss"], exact["loss"])

    def test_accumulation_is_the_same_batch(self):
        exact = self.final(2, "--epochs", 6)
        for passes in (2, 5, 100):  # 100: more passes than rows
            final = self.final(2, "--epochs", 6, "--accumulate", passes)
            self.assert_close(final["loss"], exact["loss"], 1e-4)

    def test_resumes_as_if_nothing_had_happened(self):
        whole = self.train(3, "--epochs", 6)
        self.train(3, "--epochs", 4, "--checkpoint", self.checkpoints)
        resumed = self.train(3, "--epochs", 6, "--checkpoint", self.checkpoints, "--resume")
        self.assertEqual(resumed[0][0], "resumed after epoch 4")
        self.assertEqual(resumed[0][1:], whole[0][4:])
        self.assertEqual(resumed[1][-1]["loss"], whole[1][-1]["loss"])
        # On another number of ranks it goes on from the same values.
        final = self.final(2, "--epochs", 6, "--checkpoint", self.checkpoints, "--resume")
        self.assert_close(final["loss"], whole[1][-1]["loss"], 1e-4)

    def test_resume_without_a_checkpoint_starts(self):
        lines, _ = self.train(2, "--epochs", 1, "--checkpoint", self.checkpoints, "--resume")
        self.assertIn("no checkpoint", lines[0])
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["checkpoint-00000001.hvc"])

    def test_resume_refuses_another_training_and_damaged_files(self):
        self.train(2, "--epochs", 2, "--checkpoint", self.checkpoints)
        done = run_hvrun("-np", 2, hvtest.binary("train"), "--checkpoint", self.checkpoints,
                         "--resume", "--seed", 9)
        self.assertEqual(done.code, 1, done)
        self.assertIn("was trained with seed 1, not 9", done.err)
        newest = os.path.join(self.checkpoints, "checkpoint-00000002.hvc")
        os.truncate(newest, os.path.getsize(newest) // 2)
        done = run_hvrun("-np", 2, hvtest.binary("train"), "--checkpoint", self.checkpoints,
                         "--resume")
        self.assertEqual(done.code, 1, done)
        self.assertIn("half-written", done.err)
        self.assertIn("checkpoint-00000001.hvc", done.err)

    def test_alone(self):
        done = subprocess.run([hvtest.binary("train"), "--epochs", "1"], capture_output=True,
                              text=True, timeout=60, check=True)
        self.assertIn("ranks 1", done.stdout)
        self.assertNotIn("\r", done.stdout)

    def test_a_progress_bar_on_a_terminal_only(self):
        alone = [hvtest.binary("train"), "--epochs", "1"]
        for command in (alone, [hvtest.binary("hvrun"), "-np", "2", *alone]):
            screen, terminal = os.openpty()
            with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as process:
                os.close(terminal)
                text = b""
                try:
                    while chunk := os.read(screen, 4096):
                        text += chunk
                except OSError:
                    pass  # the other end is closed
                self.assertEqual(process.wait(60), 0)
            os.close(screen)
            self.assertRegex(text, rb"epoch 1  \[#+\.+\] \d+/23\r")
            self.assertIn(b"23/23", text)
            piped = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
            self.assertNotIn(b"[#", piped)

    def test_wrong_flags(self):
        for flags, said in ((["--lr", "0"], "--lr"), (["--compression", "zip"], "zip not in"),
                            (["--resume"], "requires --checkpoint"), (["--epochs", "x"], "--epochs"),
                            (["--global-batch", "0"], "--global-batch"), (["--what"], "--what")):
            done = subprocess.run([hvtest.binary("train"), *flags], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(said, done.stdout + done.stderr)


class TopK(unittest.TestCase):
    """The example of sparse gradients."""

    def test_feedback_keeps_up_with_whole_gradients(self):
        done = hvtest.run_hvrun("-np", 2, "--no-prefix", hvtest.binary("top_k"), "--steps", 150, timeout=120)
        self.assertEqual(done.code, 0, done)
        whole, feedback, without = (float(re.search(rf"{what} +loss +([\d.]+)", done.out)[1])
                                    for what in ("whole gradient", "error feedback", "thrown away"))
        self.assertLess(feedback, 2 * whole, done)
        self.assertGreater(without, 4 * feedback, done)


if __name__ == "__main__":
    hvtest.main()
