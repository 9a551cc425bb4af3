// Packs many tensors into one buffer, or unpacks them, in one launch: scaled, and as another type,
// where that is asked for. Each block moves a stretch of one tensor by accesses of 16 bytes, where
// tensor and buffer are aligned to that (places in the buffer always are, and what allocators give
// is); else by the widest that fits.
//
// The stand-in device of the tests runs this very source, as C++, thread by thread.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime/backend/nccl/kernels.h"

namespace {

using hv::runtime::nccl::kBlockBytes;
using hv::runtime::nccl::kPlace;
using hv::runtime::nccl::kThreads;
using hv::runtime::nccl::PackArgs;
using hv::runtime::nccl::Piece;
using Size = unsigned long long;

constexpr int kAtOnce = 4;  // accesses under way per thread

template <class Compute, class T>
__device__ inline Compute widen(T value) {
  return value;
}
template <>
__device__ inline float widen<float, __half>(__half value) {
  return __half2float(value);
}
template <>
__device__ inline float widen<float, __nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <class T, class Compute>
__device__ inline T narrow(Compute value) {
  return value;
}
template <>
__device__ inline __half narrow<__half, float>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16, float>(float value) {
  return __float2bfloat16_rn(value);
}

// kSame: bits stay as they are.
template <class Compute, bool kSame, class To, class From>
__device__ inline To convert(From value, Compute scale) {
  if constexpr (kSame) {
    return value;
  } else {
    return narrow<To, Compute>(widen<Compute>(value) * scale);
  }
}

// kLoads and kStores accesses of 16 bytes move kStep elements.
template <class From, class To>
struct Step {
  static constexpr int kStep = 16 / (sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  static constexpr int kLoads = kStep * static_cast<int>(sizeof(From)) / 16;
  static constexpr int kStores = kStep * static_cast<int>(sizeof(To)) / 16;
};

template <class Compute, bool kSame, class From, class To>
__device__ void move_aligned(const From* __restrict__ from, To* __restrict__ to, Size begin,
                             Size end, Compute scale) {
  using S = Step<From, To>;
  union In {
    uint4 words[S::kLoads];
    From values[S::kStep];
    __device__ In() {}
  };
  union Out {
    uint4 words[S::kStores];
    To values[S::kStep];
    __device__ Out() {}
  };
  constexpr Size kAll = static_cast<Size>(kThreads) * S::kStep;
  for (Size at = begin + threadIdx.x * S::kStep; at < end; at += kAll * kAtOnce) {
    In in[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at + i * kAll >= end) break;
#pragma unroll
      for (int w = 0; w < S::kLoads; ++w) {
        in[i].words[w] = __ldcs(reinterpret_cast<const uint4*>(from + at + i * kAll) + w);
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at + i * kAll >= end) break;
      Out out;
#pragma unroll
      for (int v = 0; v < S::kStep; ++v) {
        out.values[v] = convert<Compute, kSame, To>(in[i].values[v], scale);
      }
#pragma unroll
      for (int w = 0; w < S::kStores; ++w) {
        __stcs(reinterpret_cast<uint4*>(to + at + i * kAll) + w, out.words[w]);
      }
    }
  }
}

template <class Compute, bool kSame, class From, class To>
__device__ void move(const From* from, To* to, Size begin, Size end, Compute scale) {
  const Size address = reinterpret_cast<Size>(from + begin) | reinterpret_cast<Size>(to + begin);
  Size rest = begin;
  if (address % 16 == 0) {
    constexpr Size kStep = Step<From, To>::kStep;
    rest = begin + (end - begin) / kStep * kStep;
    move_aligned<Compute, kSame>(from, to, begin, rest, scale);
  }
  for (Size at = rest + threadIdx.x; at < end; at += kThreads) {
    to[at] = convert<Compute, kSame, To>(from[at], scale);
  }
}

// Which piece this block works on: the last whose first block is not behind it.
__device__ inline const Piece& piece_of(const PackArgs& args) {
  unsigned low = 0, high = args.pieces;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (args.piece[middle].first_block <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return args.piece[low];
}

struct Stretch {
  Size begin, end;  // elements
};
__device__ inline Stretch stretch_of(const Piece& piece, unsigned elements) {
  const Size begin = static_cast<Size>(blockIdx.x - piece.first_block) * elements;
  const Size end = begin + elements;
  return {begin, end < piece.count ? end : piece.count};
}

template <class Compute, class Tensor, class Wire>
__device__ void convert_pieces(const PackArgs& args) {
  const Piece& piece = piece_of(args);
  const Stretch stretch = stretch_of(piece, kBlockBytes / sizeof(Tensor));
  auto* tensor = reinterpret_cast<Tensor*>(piece.tensor);
  auto* wire = reinterpret_cast<Wire*>(args.buffer + static_cast<Size>(piece.place) * kPlace);
  const auto scale = static_cast<Compute>(args.scale);
  if (args.unpack) {
    move<Compute, false>(wire, tensor, stretch.begin, stretch.end, scale);
  } else {
    move<Compute, false>(tensor, wire, stretch.begin, stretch.end, scale);
  }
}

// Bytes from one address to another by the widest access that both allow.
__device__ void copy_bytes(const unsigned char* from, unsigned char* to, Size count) {
  const Size address = reinterpret_cast<Size>(from) | reinterpret_cast<Size>(to);
  if (address % 16 == 0) return move<int, true>(from, to, 0, count, 1);
  if (address % 8 == 0 && count % 8 == 0) {
    return move<int, true>(reinterpret_cast<const Size*>(from), reinterpret_cast<Size*>(to), 0,
                           count / 8, 1);
  }
  if (address % 4 == 0 && count % 4 == 0) {
    return move<int, true>(reinterpret_cast<const unsigned*>(from), reinterpret_cast<unsigned*>(to),
                           0, count / 4, 1);
  }
  if (address % 2 == 0 && count % 2 == 0) {
    return move<int, true>(reinterpret_cast<const unsigned short*>(from),
                           reinterpret_cast<unsigned short*>(to), 0, count / 2, 1);
  }
  move<int, true>(from, to, 0, count, 1);
}

}  // namespace

extern "C" __global__ void hv_move_bytes(const __grid_constant__ PackArgs args) {
  const Piece& piece = piece_of(args);
  const Stretch stretch = stretch_of(piece, kBlockBytes);
  auto* tensor = reinterpret_cast<unsigned char*>(piece.tensor) + stretch.begin;
  auto* buffer = reinterpret_cast<unsigned char*>(args.buffer) +
                 static_cast<Size>(piece.place) * kPlace + stretch.begin;
  const Size count = stretch.end - stretch.begin;
  if (args.unpack) {
    copy_bytes(buffer, tensor, count);
  } else {
    copy_bytes(tensor, buffer, count);
  }
}
extern "C" __global__ void hv_move_f16(const __grid_constant__ PackArgs args) {
  convert_pieces<float, __half, __half>(args);
}
extern "C" __global__ void hv_move_bf16(const __grid_constant__ PackArgs args) {
  convert_pieces<float, __nv_bfloat16, __nv_bfloat16>(args);
}
extern "C" __global__ void hv_move_f32(const __grid_constant__ PackArgs args) {
  convert_pieces<float, float, float>(args);
}
extern "C" __global__ void hv_move_f64(const __grid_constant__ PackArgs args) {
  convert_pieces<double, double, double>(args);
}
extern "C" __global__ void hv_move_f32_f16(const __grid_constant__ PackArgs args) {
  convert_pieces<float, float, __half>(args);
}
extern "C" __global__ void hv_move_f32_bf16(const __grid_constant__ PackArgs args) {
  convert_pieces<float, float, __nv_bfloat16>(args);
}
