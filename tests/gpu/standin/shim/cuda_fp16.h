// What kernels.cu needs of CUDA C++, for a C++ compiler: a kernel is a function that is called once
// for each thread of each block.
#pragma once

#include "hv/types.h"

#define __device__
#define __global__
#define __grid_constant__

struct Dim {
  unsigned x = 0;
};
extern thread_local Dim threadIdx, blockIdx;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 __ldcs(const uint4* from) { return *from; }
inline void __stcs(uint4* to, uint4 value) { *to = value; }

using __half = hv::Float16;
inline float __half2float(__half value) { return hv::to_float(value); }
inline __half __float2half_rn(float value) { return hv::to_float16(value); }
