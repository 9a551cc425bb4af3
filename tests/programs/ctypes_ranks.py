"""The C ABI from Python, by ctypes alone: ctypes_ranks.py LIBHV."""

import ctypes
import sys

hv = ctypes.CDLL(sys.argv[1])
hv.hv_last_error.restype = ctypes.c_char_p
hv.hv_build.restype = ctypes.c_char_p
FLOAT32, SUM, MISMATCH, PENDING = 7, 1, 6, -1


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                ("dims", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64))]


class ReduceOptions(ctypes.Structure):
    _fields_ = [("op", ctypes.c_int32), ("prescale", ctypes.c_double), ("postscale", ctypes.c_double)]


def check(status):
    if status != 0:
        raise RuntimeError(f"{status}: {hv.hv_last_error().decode()}")


def floats(values):
    data = (ctypes.c_float * len(values))(*values)
    shape = (ctypes.c_int64 * 1)(len(values))
    return Tensor(ctypes.cast(data, ctypes.c_void_p), FLOAT32, -1, 1, shape), data


def wait(handle, seconds=-1.0):
    return hv.hv_wait(handle, ctypes.c_double(seconds))


assert hv.hv_c_version() // 1000 == 1
check(hv.hv_init(None))
rank, size = hv.hv_rank(), hv.hv_size()

# Many at once, in another order on each rank.
names = [f"t{i}" for i in range(50)]
pending = []
for name in names if rank % 2 == 0 else reversed(names):
    tensor, data = floats([rank, int(name[1:])])
    handle = ctypes.c_int64()
    check(hv.hv_allreduce(name.encode(), ctypes.byref(tensor), None,
                          ctypes.byref(ReduceOptions(SUM, 1.0, 1.0)), 0, ctypes.byref(handle)))
    pending.append((name, tensor, data, handle))
for name, tensor, data, handle in pending:
    check(wait(handle))
    assert list(data) == [size * (size - 1) / 2, size * int(name[1:])], (name, list(data))
    hv.hv_release(handle)

tensor, data = floats([float(rank)] * (rank + 1))
handle = ctypes.c_int64()
check(hv.hv_allgather(b"rows", ctypes.byref(tensor), 0, ctypes.byref(handle)))
check(wait(handle, 60))
result = Tensor()
check(hv.hv_output(handle, 0, ctypes.byref(result)))
count = result.shape[0]
gathered = (ctypes.c_float * count).from_address(result.data)
assert list(gathered) == [float(r) for r in range(size) for _ in range(r + 1)], list(gathered)
hv.hv_release(handle)

tensor, data = floats([0.0] * (1 + rank))
check(hv.hv_allreduce(b"odd", ctypes.byref(tensor), None, None, 0, ctypes.byref(handle)))
assert wait(handle) == MISMATCH and b"'odd'" in hv.hv_last_error(), hv.hv_last_error()
check(hv.hv_shutdown())
assert hv.hv_rank() == -1
print("all right")
