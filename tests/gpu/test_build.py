"""What the build has made: nothing of CUDA where it does not belong, and kernels as they should be."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["HV_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
NVCC = os.environ.get("HV_NVCC", "")
ARCHITECTURES = os.environ.get("HV_CUDA_ARCHITECTURES", "").split(",")
FATBIN = BUILD / "runtime/backend/nccl/kernels.fatbin"
KERNELS = ["hv_move_bytes", "hv_move_f16", "hv_move_bf16", "hv_move_f32", "hv_move_f64",
           "hv_move_f32_f16", "hv_move_f32_bf16"]


def run(*command):
    return subprocess.run(command, text=True, check=True, capture_output=True).stdout


class Dependencies(unittest.TestCase):
    def test_nothing_of_cuda_is_needed(self):
        files = [BUILD / "bin" / name for name in ("hvrun", "hvagent", "train", "hvbench")]
        files += [BUILD / "lib" / "libhv.so"]
        files += [path for path in (BUILD / "lib").glob("libhv_nccl.so")]
        for path in files:
            if not path.exists():  # a partial build
                continue
            needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path))
            bad = [name for name in needed if re.search("cuda|nccl|cudart|nvrtc|cublas", name)]
            self.assertEqual(bad, [], path)
            undefined = run("nm", "-D", "--undefined-only", path).split() if needed else []
            bad = [name for name in undefined if re.match(r"(cu|cuda|nccl)[A-Z]", name)]
            self.assertEqual(bad, [], path)

    def test_the_library_exports_nothing_of_the_plugin(self):
        symbols = run("nm", "-DC", "--defined-only", BUILD / "lib" / "libhv.so")
        self.assertNotIn("nccl", symbols)


@unittest.skipUnless(FATBIN.exists(), "the plug-in is not built here (no nvcc, or HV_CUDA=OFF)")
class Kernels(unittest.TestCase):
    def entries(self):
        """(kind, architecture) of each part of the fat binary; 1 is PTX, 2 machine code."""
        data = FATBIN.read_bytes()
        magic, _, header, _ = struct.unpack_from("<IHHQ", data, 0)
        self.assertEqual(magic, 0xBA55ED50)
        at, found = header, set()
        while at < len(data):
            kind, _, length, size = struct.unpack_from("<HHIQ", data, at)
            found.add((kind, struct.unpack_from("<I", data, at + 28)[0]))
            at += length + size
        return found

    def test_there_is_code_for_each_architecture_and_ptx_for_later_ones(self):
        wanted = [int(number) for number in ARCHITECTURES]
        found = self.entries()
        self.assertEqual({a for kind, a in found if kind == 2}, set(wanted))
        self.assertEqual({a for kind, a in found if kind == 1}, {wanted[-1]})
        print("code for sm_" + ", sm_".join(map(str, wanted)) + f"; PTX for compute_{wanted[-1]}")

    def test_every_kernel_loads_and_stores_16_bytes_at_once(self):
        with tempfile.TemporaryDirectory() as directory:
            ptx = pathlib.Path(directory) / "kernels.ptx"
            newest = ARCHITECTURES[-1]
            run(NVCC, "-std=c++17", "-O3", f"-I{SOURCE}", "--ptx", "-gencode",
                f"arch=compute_{newest},code=compute_{newest}", "-o", ptx,
                SOURCE / "runtime/backend/nccl/kernels.cu")
            text = ptx.read_text()
        bodies = dict(re.findall(r"\.entry (\w+)\(.*?\n\{(.*?)\n\}", text, re.S))
        self.assertEqual(sorted(bodies), sorted(KERNELS))
        for name, body in bodies.items():
            for access in ("ld", "st"):
                count = len(re.findall(rf"\b{access}\.global[.\w]*\.v4\.[ubf]32", body))
                self.assertGreaterEqual(count, 4, f"{name}: {access}.global.v4")
            self.assertNotIn(".local", body, f"{name}: spills to local memory")
            print(f"{name}: {len(re.findall(r'ld.global[.a-z]*.v4', body))} loads of 16 bytes")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
