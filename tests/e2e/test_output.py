"""What ranks print: bytes unchanged, lines whole, live, bounded memory, files."""

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402
from hvtest import run_hvrun  # noqa: E402

# Lines "rank number xxx…" of about 300 bytes, written in pieces that do not fit them.
TALKER = """
import os, sys
rank, lines = os.environ["RANK"], int(sys.argv[1])
data = b"".join(b"%s %d %s\\n" % (rank.encode(), i, b"x" * 290) for i in range(lines))
for at in range(0, len(data), 7777):
    os.write(1, data[at:at + 7777])
if len(sys.argv) > 2 and rank == sys.argv[2]:
    os.write(2, b"last words\\n")
    os.abort()
"""


def resident_mb(pid, key="VmHWM"):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(rf"{key}:\s+(\d+) kB", file.read()).group(1)) / 1024


class Bytes(unittest.TestCase):
    def test_single_stream_is_exact(self):
        done = run_hvrun("-np", 1, "--no-prefix", "echo", "hi")
        self.assertEqual((done.raw_out, done.raw_err), (b"hi\n", b""))

    def test_prefixes(self):
        done = run_hvrun("-np", 2, "sh", "-c", "echo out; echo err >&2; printf end")
        self.assertEqual(sorted(re.findall(r"\[\d\]<\w+>:\w+", done.out)),
                         ["[0]<stdout>:end", "[0]<stdout>:out", "[1]<stdout>:end", "[1]<stdout>:out"])
        self.assertEqual(sorted(done.err.splitlines()), ["[0]<stderr>:err", "[1]<stderr>:err"])
        done = run_hvrun("-np", 1, "--prefix", "rank,host", "echo", "x")
        self.assertEqual(done.out, "[0@localhost]<stdout>:x\n")

    def test_odd_bytes(self):
        with tempfile.NamedTemporaryFile() as data:
            content = ("héé→\r\n" * 50000).encode() + bytes(range(256)) * 400 + b"\x8a\x00end"
            data.write(content)
            data.flush()
            done = run_hvrun("-np", 1, "--no-prefix", "cat", data.name)
            self.assertEqual(done.raw_out, content)
            done = run_hvrun("-np", 1, "--no-prefix", "dd", f"if={data.name}", "bs=17", "status=none")
            self.assertEqual(done.raw_out, content)

    def test_long_lines(self):
        done = run_hvrun("-np", 1, sys.executable, "-c", "print('y' * 3000000)")
        self.assertEqual(done.out, "[0]<stdout>:" + "y" * 3000000 + "\n")


class Lines(unittest.TestCase):
    def check(self, text, ranks, lines):
        seen = [0] * ranks
        for line in text.splitlines():
            rank, number, body = line.split(" ")
            self.assertEqual(int(number), seen[int(rank)])
            self.assertEqual(body, "x" * 290)
            seen[int(rank)] += 1
        return seen

    def test_whole_and_complete(self):
        count = hvtest.repeats(100000, usual=10000)
        with tempfile.TemporaryFile() as out:
            done = run_hvrun("-np", 8, "--no-prefix", sys.executable, "-c", TALKER, count, timeout=120,
                             stdout=out)
            self.assertEqual(done.code, 0, done)
            out.seek(0)
            self.assertEqual(self.check(out.read().decode(), 8, count), [count] * 8)

    def test_last_words_of_a_dying_rank(self):
        done = run_hvrun("-np", 4, "--no-prefix", sys.executable, "-c", TALKER, 5000, 2)
        self.assertEqual(done.code, 134, done.err)
        # The others may have been ended in the middle of a line; this rank's are whole.
        own = [line for line in done.out.splitlines(True) if line.startswith("2 ")]
        self.assertEqual(self.check("".join(own), 4, 5000)[2], 5000)
        self.assertIn("last words", done.err)
        self.assertIn("| last words", done.err)

    def test_live(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "--no-prefix", "sh", "-c",
                         "for i in 1 2 3; do echo $i; sleep 0.5; done")
        times = []
        for _ in range(3):
            job.process.stdout.readline()
            times.append(time.monotonic())
        job.finish()
        for before, after in zip(times, times[1:]):
            self.assertTrue(0.3 < after - before < 0.7, times)

    def test_progress_bars(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "sh", "-c",
                         "printf '10%%\\r'; sleep 1; printf '20%%\\r\\n'; printf 'a\\r\\nb\\n'")
        started = time.monotonic()
        self.assertEqual(os.read(job.process.stdout.fileno(), 100), b"[0]<stdout>:10%\r")
        self.assertLess(time.monotonic() - started, 0.9)
        _, out, _ = job.finish()
        self.assertEqual(out, b"[0]<stdout>:20%\r\n[0]<stdout>:a\r\n[0]<stdout>:b\n")


class SlowReaders(unittest.TestCase):
    def test_memory_is_bounded(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "sh", "-c", "yes | head -c 100000000")
        self.addCleanup(job.kill_all)
        job.find("yes", count=2)
        time.sleep(2)  # nobody reads; the ranks must be standing still by now
        agent, _ = job.agent_and_keeper()
        self.assertLess(resident_mb(job.pid), 40)
        self.assertLess(resident_mb(agent), 40)
        code, out, _ = job.finish(60)
        self.assertEqual((code, len(out)), (0, 2 * 50000000 * len(b"[0]<stdout>:y\n")))

    def test_reader_that_pauses_longer_than_lost_after(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "--lost-after", 1, "--no-prefix", "sh", "-c",
                         "yes | head -c 3000000")
        time.sleep(3)
        code, out, err = job.finish(30)
        self.assertEqual((code, len(out)), (0, 3000000), err)

    def test_reader_that_goes_away(self):
        done = subprocess.run(["sh", "-c", f"{hvtest.binary('hvrun')} -np 2 sh -c 'yes | head -c 9000000; "
                               "echo end >&2' | head -n 1"], capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stdout, r"^\[\d\]<stdout>:y\n$")
        self.assertEqual(done.stderr.count("<stderr>:end"), 2, done.stderr)

    def test_interrupt_with_a_stuck_terminal(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "yes")
        self.addCleanup(job.kill_all)
        job.find("yes", count=2)
        time.sleep(0.5)
        job.process.terminate()
        time.sleep(1)
        job.process.terminate()
        hvtest.wait_until(lambda: job.process.poll() is not None, 5, "the end though nobody reads")
        job.expect_gone(1)
        self.assertEqual(job.finish()[0], 143)

    def test_terminal(self):
        pid, master = pty.fork()
        if pid == 0:
            os.execv(hvtest.binary("hvrun"), ["hvrun", "-np", "1", "--no-prefix", "seq", "20000"])
        seen = b""
        try:
            while chunk := os.read(master, 65536):
                seen += chunk
        except OSError:
            pass
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(seen, b"".join(b"%d\r\n" % i for i in range(1, 20001)))


class Files(unittest.TestCase):
    def test_one_pair_a_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # the second run begins afresh
                done = run_hvrun("-np", 11, "--output-filename", "logs", "sh", "-c",
                                 "echo out $RANK; printf 'e\\r%d' $RANK >&2", cwd=folder)
                self.assertEqual(done.code, 0, done)
                for rank in range(11):
                    place = os.path.join(folder, "logs", f"rank.{rank:02}")
                    with open(os.path.join(place, "stdout"), "rb") as file:
                        self.assertEqual(file.read(), b"out %d\n" % rank)
                    with open(os.path.join(place, "stderr"), "rb") as file:
                        self.assertEqual(file.read(), b"e\r%d" % rank)
            self.assertIn("[7]<stdout>:out 7\n", done.out)

    def test_unwritable_place(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace")
            done = run_hvrun("-np", 2, "--output-filename", "/proc/nowhere", "touch", trace)
            self.assertEqual(done.code, 2, done)
            self.assertIn("/proc/nowhere", done.err)
            self.assertFalse(os.path.exists(trace))


if __name__ == "__main__":
    hvtest.main()
