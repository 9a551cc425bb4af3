"""What libhv.so gives to and takes from a stranger's program: only its own symbols go out, and the
libraries that it is built from do not come in."""

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

    def test_only_own_symbols_go_out(self):
        names = self.symbols("--defined-only")
        self.assertIn("hv::init()", names)
        self.assertIn("typeinfo for hv::Error", names)
        self.assertEqual([n for n in names if not OWN.match(n)], [])

    def test_nothing_internal_goes_out(self):
        self.assertEqual([n for n in self.symbols("--defined-only") if INSIDE.match(n)], [])

    def test_no_library_of_ours_comes_in(self):
        wanted = subprocess.run(["readelf", "-dW", self.library], check=True, capture_output=True,
                                text=True).stdout
        libraries = re.findall(r"NEEDED.*\[(.*?)\]", wanted)
        self.assertTrue(libraries)
        bad = [l for l in libraries if re.match(r"lib(spdlog|fmt|boost|ssh|yaml|hwloc)", l)]
        self.assertEqual(bad, [])
        foreign = [n for n in self.symbols("--undefined-only")
                   if re.search(r"spdlog|\bfmt::|boost::", n)]
        self.assertEqual(foreign, [])


if __name__ == "__main__":
    hvtest.main()
