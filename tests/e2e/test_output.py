"""What ranks print: bytes unchanged, lines whole, live, bounded memory, files."""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
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
            self.assertTrue(0.3 < after - before < 5, times)

    def test_progress_bars(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 1, "sh", "-c",
                         "printf '10%%\\r'; sleep 4; printf '20%%\\r\\n'; printf 'a\\r\\nb\\n'")
        started = time.monotonic()
        self.assertEqual(os.read(job.process.stdout.fileno(), 100), b"[0]<stdout>:10%\r")
        self.assertLess(time.monotonic() - started, 3.5)
        _, out, _ = job.finish()
        self.assertEqual(out, b"[0]<stdout>:20%\r\n[0]<stdout>:a\r\n[0]<stdout>:b\n")


class SlowReaders(unittest.TestCase):
    def test_memory_is_bounded(self):
        job = hvtest.Job(hvtest.binary("hvrun"), "-np", 2, "sh", "-c", "yes | head -c 20000000")
        self.addCleanup(job.kill_all)
        job.find("yes", count=2)
        time.sleep(2)  # nobody reads; the ranks must be standing still by now
        agent, _ = job.agent_and_keeper()
        self.assertLess(resident_mb(job.pid), 40)
        self.assertLess(resident_mb(agent), 40)
        code, out, _ = job.finish(60)
        self.assertEqual((code, len(out)), (0, 2 * 10000000 * len(b"[0]<stdout>:y\n")))

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


class Choice(unittest.TestCase):
    def test_time_in_front(self):
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} "
        for options, prefix in ((["--prefix", "rank,time"], r"\[0\]<stdout>:"), (["--prefix", "time"], ""),
                                (["-prefix-timestamp"], r"\[0\]<stdout>:")):
            done = run_hvrun("-np", 1, *options, "sh", "-c", "echo one; echo two")
            self.assertRegex(done.out, f"^{stamp}{prefix}one\n{stamp}{prefix}two\n$")

    def test_show_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_hvrun("-np", 4, "--show-ranks", "0,2", "--output-filename", folder, "sh", "-c",
                             "echo out $RANK; sleep 0.2; [ $RANK != 3 ] || { echo why >&2; exit 9; }; sleep 60")
            self.assertEqual(done.code, 9, done)
            self.assertEqual(sorted(done.out.splitlines()), ["[0]<stdout>:out 0", "[2]<stdout>:out 2"])
            self.assertNotIn("<stderr>", done.err)
            self.assertIn("| why", done.err)  # the failing rank's last lines all the same
            for rank in range(4):
                with open(os.path.join(folder, f"rank.{rank}", "stdout"), encoding="ascii") as file:
                    self.assertEqual(file.read(), f"out {rank}\n")
        done = run_hvrun("-np", 2, "--show-ranks", "2", "true")
        self.assertEqual(done.code, 2)
        self.assertIn("there is no rank 2; the job has ranks 0 to 1", done.err)

    def test_own_messages_as_json(self):
        done = run_hvrun("-np", 1, "--log-format", "json", "--log-level", "info", "sh", "-c", "exit 3")
        lines = [json.loads(line) for line in done.err.splitlines()]
        self.assertEqual(done.code, 3)
        self.assertEqual({line["name"] for line in lines}, {"hvrun"})
        self.assertIn("exited with code 3", lines[-1]["text"])
        self.assertEqual(lines[-1]["level"], "error")
        self.assertTrue(any(line["level"] == "info" for line in lines), lines)

    def test_log_level_reaches_the_ranks(self):
        done = run_hvrun("-np", 1, "--no-prefix", "--log-level", "error", "sh", "-c",
                         "echo $HVRUN_LOG_LEVEL $HOROVOD_LOG_LEVEL")
        self.assertEqual(done.out, "error error\n")

    def test_colours_only_on_a_terminal(self):
        self.assertNotIn("\033", run_hvrun("-np", 1, "sh", "-c", "exit 3").err)
        for variables, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            pid, master = pty.fork()
            if pid == 0:
                os.environ.pop("NO_COLOR", None)
                os.environ.update(variables)
                os.execv(hvtest.binary("hvrun"), ["hvrun", "-np", "1", "false"])
            seen = b""
            try:
                while chunk := os.read(master, 65536):
                    seen += chunk
            except OSError:
                pass
            os.close(master)
            os.waitpid(pid, 0)
            self.assertIn(b"exited with code 1", seen)
            self.assertEqual(b"\033[" in seen, coloured, seen)


class Input(unittest.TestCase):
    def test_left_alone_unless_asked_for(self):
        script = "printf 'a\\nb\\nc\\n' | while read h; do \"$0\" -np 1 true; echo $h; done"
        done = subprocess.run(["sh", "-c", script, hvtest.binary("hvrun")], text=True, timeout=60,
                              capture_output=True)
        self.assertEqual((done.stdout, done.stderr), ("a\nb\nc\n", ""))

    def run_with(self, data, *args):
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            from_file = run_hvrun(*args, stdin=file)
        job = hvtest.Job(hvtest.binary("hvrun"), *args, stdin=subprocess.PIPE)
        feeder = threading.Thread(target=lambda: (job.process.stdin.write(data), job.process.stdin.close()))
        feeder.start()
        out = job.process.stdout.read()
        feeder.join()
        job.process.stdin = None
        code, _, err = job.finish()
        # Ranks' lines come in any order.
        self.assertEqual((code, sorted(out.splitlines())),
                         (from_file.code, sorted(from_file.raw_out.splitlines())), err)
        return from_file

    def test_to_one_rank(self):
        data = os.urandom(3_000_000)
        done = self.run_with(data, "-np", 2, "--no-prefix", "--stdin", "1", "sh", "-c", "cat")
        self.assertEqual((done.code, done.raw_out), (0, data))

    def test_to_all_ranks(self):
        done = self.run_with(b"x\n" * 200000, "-np", 3, "--stdin", "all", "wc", "-c")
        self.assertEqual(sorted(done.out.split()), [f"[{rank}]<stdout>:400000" for rank in range(3)])

    def test_a_rank_that_does_not_read_holds_up_nobody_when_it_ends(self):
        done = self.run_with(b"y" * 1_000_000, "-np", 2, "--no-prefix", "--stdin", "all", "sh", "-c",
                             "[ $RANK = 0 ] && exit 0; wc -c")
        self.assertEqual((done.code, done.out.strip()), (0, "1000000"))

    def test_ends(self):
        done = run_hvrun("-np", 2, "--stdin", "all", "cat", stdin=subprocess.DEVNULL)
        self.assertEqual((done.code, done.out), (0, ""))
        job = subprocess.run(["sh", "-c", "exec \"$0\" -np 1 --stdin 0 cat <&-", hvtest.binary("hvrun")],
                             timeout=60, capture_output=True)
        self.assertEqual((job.returncode, job.stdout), (0, b""))

    def test_mistakes(self):
        for who, text in (("some", "none of: none, a rank, all"), ("7", "there is no rank 7")):
            done = run_hvrun("-np", 2, "--stdin", who, "cat")
            self.assertEqual(done.code, 2)
            self.assertIn(text, done.err)


if __name__ == "__main__":
    hvtest.main()
