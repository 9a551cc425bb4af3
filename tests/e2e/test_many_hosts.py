"""Jobs on many hosts, which are all this machine: --launch-agent gives each an agent of its own."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402

LOOP = hvtest.binary("world_loop")
PATIENT = ["--start-timeout", 120, "--lost-after", 60, "--no-prefix"]


class ManyHosts(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_on(self, hosts, slots, *args):
        names = [f"p{i}" for i in range(hosts)]
        return hvtest.run_hvrun(*PATIENT, *hvtest.pretended_hosts(self.folder, names, slots), *args,
                                timeout=150)

    def test_hosts_of_one_machine_are_hosts(self):
        done = self.run_on(8, 2, LOOP, 20, "places", -1, 0)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertEqual(sorted(done.out.splitlines()),
                         sorted(f"rank {rank}: local {rank % 2} of 2, cross {rank // 2} of 8"
                                for rank in range(16)))


if __name__ == "__main__":
    hvtest.main()
