"""hvrun --check-build -H: what differs between hosts, and nothing else."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest  # noqa: E402
from lab import LabTest  # noqa: E402


class CheckHosts(LabTest):
    def check(self, *flags, code=0, **options):
        done = self.hvrun("--check-build", *flags, **options)
        self.assertEqual((done.code, done.err), (code, ""), done)
        return done.out

    def replace_program(self, host, path, text):
        own = self.lab.file(f"{host}-{os.path.basename(path)}")
        self.write(own, text, 0o755)
        self.hide(host, path, own)

    def test_equal_hosts(self):
        self.assertEqual(self.check("-H", "h1,h2:4,h3"), "all 3 hosts are the same\n")

    def test_only_what_differs_is_told(self):
        self.replace_program("h2", "/usr/bin/ssh", "#!/bin/sh\necho OpenSSH_7.4 >&2\n")
        self.replace_program("h3", "/usr/bin/ssh", "#!/bin/sh\nsleep 100\n")
        report = json.loads(self.check("--json", "-H", "h1,h2,h3"))
        self.assertEqual([d["name"] for d in report["differences"]], ["ssh: OpenSSH client"])
        sides = {side["hosts"][0]: side["answer"] for side in report["differences"][0]["sides"]}
        self.assertRegex(sides["h2"], r"^yes 7\.4")
        self.assertRegex(sides["h3"], r"^no")
        text = self.check("-H", "h1,h2,h3")
        self.assertTrue(text.startswith("1 difference between 3 hosts; all else is the same\n"), text)

    def test_a_host_that_cannot_be_asked(self):
        report = json.loads(self.check("--json", "-H", "h1,nowhere,h2", code=71))
        self.assertEqual(report["hosts"], 2)
        self.assertEqual([u["host"] for u in report["unasked"]], ["nowhere"])
        self.assertEqual(report["differences"], [])

    def test_an_ordinary_user_and_no_files_left(self):
        self.lab.user("eve")
        self.assertEqual(self.check("-H", "h1,h2", user="eve", cwd=self.lab.home("eve")),
                         "all 2 hosts are the same\n")

    def test_a_word_too_many(self):
        done = self.hvrun("--check-build", "-H", "h1", "h2")
        self.assertEqual(done.code, 2)
        self.assertIn("'h2' is too much", done.err)


if __name__ == "__main__":
    hvtest.main()
