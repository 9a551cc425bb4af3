"""Node lists expand as with the scontrol installed here: 2,000 generated ones, and all malformed ones fail."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import hvtest  # noqa: E402

LISTS = 2000


def number(rng):
    value = rng.choice([rng.randrange(0, 12), rng.randrange(0, 1200), rng.randrange(0, 10**9)])
    return str(value).zfill(rng.choice([1, 1, 2, 3, 5]))


def one_range(rng):
    first = number(rng)
    if rng.random() < 0.4:
        return first
    last = str(int(first) + rng.randrange(0, 25))
    return first + "-" + (last.zfill(len(first)) if rng.random() < 0.8 else last)


def name(rng):
    word = "".join(rng.choice("abn-._7") for _ in range(rng.randrange(0, 5)))
    return rng.choice(["n", "node-", "c4", "R", "gpu.a", ""]) + word


def one_host(rng):
    brackets = rng.choice([0, 0, 1, 1, 1, 2, 3])
    text = rng.choice("nhx") + name(rng)
    if brackets == 0:
        return text + rng.choice(["", number(rng)])
    for index in range(brackets):
        if index > 0:
            text += rng.choice(["", "n", "-", "0", "s07"])
        text += "[" + ",".join(one_range(rng) for _ in range(rng.randrange(1, 4))) + "]"
    return text


def generate(rng):
    return ",".join(one_host(rng) for _ in range(rng.randrange(1, 6)))


MALFORMED = ["n[", "n[1", "n]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[a]", "n[1,,2]", "n[1,]",
             "n[1-2-3]", "n[[1]]", "n[1]]", "a,n[1", "n[0-65536]", "n[ 1-2 ]", "n[1.5]"]


def expand(lists):
    answer = subprocess.run([hvtest.binary("expand_nodes")], input="\n".join(lists) + "\n", text=True,
                            capture_output=True, check=True, timeout=60)
    return answer.stdout.splitlines()


class NodeLists(unittest.TestCase):
    @unittest.skipUnless(shutil.which("scontrol"), "scontrol is not installed (slurm-client)")
    def test_same_as_scontrol(self):
        rng = random.Random(2022)
        lists = [generate(rng) for _ in range(LISTS)]
        with tempfile.TemporaryDirectory() as folder:
            conf = os.path.join(folder, "slurm.conf")
            with open(conf, "w") as out:
                out.write("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=ALL\n")

            def scontrol(text):
                run = subprocess.run(["scontrol", "show", "hostnames", text], text=True, timeout=60,
                                     capture_output=True, env={**os.environ, "SLURM_CONF": conf})
                return run.stdout.split() if run.returncode == 0 else run.stderr

            with ThreadPoolExecutor(4) as pool:
                expected = list(pool.map(scontrol, lists))
        ours = [line.split() for line in expand(lists)]
        self.assertEqual(len(ours), LISTS)
        for text, right, mine in zip(lists, expected, ours):
            self.assertEqual(mine, right, text)
        self.assertGreater(sum(len(names) for names in ours), LISTS * 5)

    def test_malformed_lists_say_where(self):
        for text, answer in zip(MALFORMED, expand(MALFORMED), strict=True):
            self.assertRegex(answer, r"^error: .* at character \d+", text)


if __name__ == "__main__":
    hvtest.main()
