"""What libhv.so gives to and takes from a stranger's program: only its own symbols go out, and the
libraries that it is built from do not come in. And what hvrun waits for when it starts."""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hvtest

OWN = re.compile(r"^(hv::|hv_|(typeinfo|typeinfo name|vtable) for hv::)")
INSIDE = re.compile(r"^(typeinfo for |typeinfo name for |vtable for )?hv::(runtime|base|rendezvous|launcher)::")


@unittest.skipUnless(shutil.which("nm") and shutil.which("readelf"), "no nm or readelf here (binutils)")
class Exports(unittest.TestCase):
    library = os.path.join(hvtest.BUILD, "lib", "libhv.so")

    def symbols(self, *flags):
        text = subprocess.run(["nm", "-DC", *flags, self.library], check=True, capture_output=True,
                              text=True).stdout
        return [line[19:] for line in text.splitlines()]

    def needed(self, program):
        dynamic = subprocess.run(["readelf", "-dW", program], check=True, capture_output=True,
                                 text=True).stdout
        names = re.findall(r"NEEDED.*\[(.*?)\]", dynamic)
        return [name for name in names if not name.startswith("ld-linux")]

    def test_only_own_symbols_go_out(self):
        names = self.symbols("--defined-only")
        self.assertIn("hv::init()", names)
        self.assertIn("typeinfo for hv::Error", names)
        self.assertEqual([n for n in names if not OWN.match(n)], [])

    def test_nothing_internal_goes_out(self):
        self.assertEqual([n for n in self.symbols("--defined-only") if INSIDE.match(n)], [])

    def test_no_library_of_ours_comes_in(self):
        libraries = self.needed(self.library)
        self.assertTrue(libraries)
        bad = [l for l in libraries if re.match(r"lib(spdlog|fmt|boost|ssh|yaml|hwloc)", l)]
        self.assertEqual(bad, [])
        foreign = [n for n in self.symbols("--undefined-only")
                   if re.search(r"spdlog|\bfmt::|boost::", n)]
        self.assertEqual(foreign, [])

    def test_hvrun_waits_for_no_library_but_libc(self):
        """Each costs a small job a part of its start; libssh comes in only where ssh is used."""
        if self.needed(hvtest.binary("hvagent")):
            self.skipTest("sanitizers need shared libraries")
        self.assertLessEqual(set(self.needed(hvtest.binary("hvrun"))), {"libc.so.6", "libm.so.6"})


if __name__ == "__main__":
    hvtest.main()
