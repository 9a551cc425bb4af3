// The loops of reduce.h over vectors of a compiler's own kind, as templates over an instruction
// set. Each reduce_<isa>.cc instantiates them with an Isa type of its unnamed namespace, so nothing
// here is shared between files that are compiled with different flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/collective/reduce.h"
#include "runtime/collective/reduce_table.h"

namespace hv::runtime::simd {

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// binary16 and bfloat16 by integer arithmetic; see types.cc for the cases.
template <int N>
struct SoftFloat16 {
  using Raw = Vector<std::uint16_t, N>;
  using Bits = Vector<std::uint32_t, N>;
  using Wide = Vector<float, N>;
  static Wide widen(Raw raw) {
    const Bits half = __builtin_convertvector(raw, Bits);
    const Bits sign = (half & 0x8000u) << 16;
    const Bits abs = half & 0x7fffu;
    const Bits normal = (abs << 13) + (112u << 23);
    const Bits subnormal = (Bits)((Wide)(normal + (1u << 23)) - (Wide)(Bits{} + (113u << 23)));
    const Bits nan = (abs << 13) | 0x7fc00000u;
    const Bits infinity = Bits{} + 0x7f800000u;
    Bits bits = abs < 0x400u ? subnormal : normal;
    bits = abs == 0x7c00u ? infinity : bits;
    bits = abs > 0x7c00u ? nan : bits;
    return (Wide)(bits | sign);
  }
  static Raw narrow(Wide wide) {
    const Bits bits = (Bits)wide;
    const Bits sign = (bits >> 16) & 0x8000u;
    const Bits abs = bits & 0x7fffffffu;
    const Bits magic = Bits{} + (126u << 23);
    const Bits subnormal = (Bits)((Wide)abs + (Wide)magic) - magic;
    const Bits normal = (abs - (112u << 23) + 0xfffu + ((abs >> 13) & 1u)) >> 13;
    const Bits nan = 0x7e00u | ((abs >> 13) & 0x3ffu);
    const Bits infinity = Bits{} + 0x7c00u;
    Bits half = abs < 0x38800000u ? subnormal : normal;
    half = abs >= 0x47800000u ? infinity : half;
    half = abs > 0x7f800000u ? nan : half;
    return __builtin_convertvector(half | sign, Raw);
  }
};

template <int N>
struct SoftBFloat16 {
  using Raw = Vector<std::uint16_t, N>;
  using Bits = Vector<std::uint32_t, N>;
  using Wide = Vector<float, N>;
  static Wide widen(Raw raw) { return (Wide)(__builtin_convertvector(raw, Bits) << 16); }
  static Raw narrow(Wide wide) {
    const Bits bits = (Bits)wide;
    const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Bits nan = (bits >> 16) | 0x40u;
    const Bits abs = bits & 0x7fffffffu;
    return __builtin_convertvector(abs > 0x7f800000u ? nan : rounded, Raw);
  }
};

template <class T, int N>
struct Plain {
  using Raw = Vector<T, N>;
  using Wide = Raw;
  static Wide widen(Raw raw) { return raw; }
  static Raw narrow(Wide wide) { return wide; }
};

// Element types as an Isa vectorizes them: `Element` in memory, `Compute` in registers.
template <class Isa, class E, class C, class Conversion>
struct Lanes {
  using Element = E;
  using Compute = C;
  static constexpr std::size_t kCount = Isa::kBytes / sizeof(C);
  using Raw = Vector<E, kCount>;
  using Wide = Vector<C, kCount>;
  static Wide widen(Raw raw) { return Conversion::widen(raw); }
  static Raw narrow(Wide wide) { return Conversion::narrow(wide); }
};

struct Sum {
  template <class V, class Bits>
  static V apply(V a, V b) {
    return (V)((Bits)a + (Bits)b);
  }
};
struct Product {
  template <class V, class Bits>
  static V apply(V a, V b) {
    return (V)((Bits)a * (Bits)b);
  }
};
struct Min {  // b != b: NaN wins
  template <class V, class Bits>
  static V apply(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct Max {
  template <class V, class Bits>
  static V apply(V a, V b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

template <class Isa, class L, class Op>
struct Loops {
  using Element = typename L::Element;
  using Compute = typename L::Compute;
  using Raw = typename L::Raw;
  using Wide = typename L::Wide;
  static constexpr std::size_t kLanes = L::kCount;
  static constexpr int kUnroll = 4;
  static constexpr bool kFloat = std::is_floating_point_v<Compute>;
  // Integers wrap, so they are added and multiplied without sign.
  using Arithmetic =
      Vector<std::conditional_t<kFloat, Compute, BitsOf<Compute>>, static_cast<int>(kLanes)>;

  template <class V>
  static V load(const void* from, std::size_t bytes) {
    V v{};
    if (bytes >= sizeof v) {
      std::memcpy(&v, from, sizeof v);
    } else {
      std::memcpy(&v, from, bytes);
    }
    return v;
  }
  template <class V>
  static void store(void* to, V v, std::size_t bytes) {
    if (bytes >= sizeof v) {
      std::memcpy(to, &v, sizeof v);
    } else {
      std::memcpy(to, &v, bytes);
    }
  }
  static Wide apply(Wide a, Wide b) { return Op::template apply<Wide, Arithmetic>(a, b); }
  static Wide multiply(Wide v, double factor) {
    if constexpr (kFloat) {
      return v * static_cast<Compute>(factor);
    } else {
      for (std::size_t i = 0; i < kLanes; ++i) {
        v[i] = static_cast<Compute>(static_cast<double>(v[i]) * factor);
      }
      return v;
    }
  }
  static Wide finished(Wide v, const Scale& scale) {
    if (scale.divisor != 1) v = v / static_cast<Compute>(scale.divisor);
    if (scale.post != 1.0) v = multiply(v, scale.post);
    return v;
  }

  // `U` vectors from element `at` on; `last` elements are valid where fewer than U * kLanes are.
  template <int U>
  static void fold_block(std::byte* dst, const void* const* src, int sources, std::size_t at,
                         std::size_t valid, const Scale& scale) {
    Wide acc[U];
    const std::size_t offset = at * sizeof(Element);
    const std::size_t bytes = valid * sizeof(Element);
    auto input = [&](int s, int u) {
      Wide v = L::widen(
          load<Raw>(static_cast<const std::byte*>(src[s]) + offset + u * sizeof(Raw), bytes));
      return scale.pre != 1.0 ? multiply(v, scale.pre) : v;
    };
    for (int u = 0; u < U; ++u) acc[u] = input(0, u);
    for (int s = 1; s < sources; ++s) {
      for (int u = 0; u < U; ++u) acc[u] = apply(acc[u], input(s, u));
    }
    for (int u = 0; u < U; ++u) {
      const Wide v = scale.finishes() ? finished(acc[u], scale) : acc[u];
      store(dst + offset + u * sizeof(Raw), L::narrow(v), bytes);
    }
  }
  // What comes next, ahead of its use: most of it lies in another core's cache, and the processor
  // does not see that early enough by itself. Addresses beyond the end do no harm.
  static void prefetch(const std::byte* dst, const void* const* src, int sources,
                       std::size_t offset) {
    constexpr std::size_t kAhead = 1024, kLine = 64;
    for (std::size_t line = 0; line < kUnroll * sizeof(Raw); line += kLine) {
      for (int s = 0; s < sources; ++s) {
        __builtin_prefetch(static_cast<const std::byte*>(src[s]) + offset + line + kAhead, 0, 3);
      }
      __builtin_prefetch(dst + offset + line + kAhead, 1, 3);
    }
  }
  // Unrolled blocks, then single vectors, then a partial one.
  static void fold(void* dst, const void* const* src, int sources, std::size_t count,
                   const Scale& scale) {
    auto* to = static_cast<std::byte*>(dst);
    constexpr std::size_t kBlock = kUnroll * kLanes;
    std::size_t at = 0;
    for (; at + kBlock <= count; at += kBlock) {
      prefetch(to, src, sources, at * sizeof(Element));
      fold_block<kUnroll>(to, src, sources, at, kBlock, scale);
    }
    for (; at + kLanes <= count; at += kLanes) fold_block<1>(to, src, sources, at, kLanes, scale);
    if (at < count) fold_block<1>(to, src, sources, at, count - at, scale);
  }
  static void widen(void* wide, const void* src, std::size_t count) {
    auto* to = static_cast<std::byte*>(wide);
    auto* from = static_cast<const std::byte*>(src);
    for (std::size_t at = 0; at < count; at += kLanes) {
      const std::size_t valid = count - at < kLanes ? count - at : kLanes;
      const Raw raw = load<Raw>(from + at * sizeof(Element), valid * sizeof(Element));
      store(to + at * sizeof(Compute), L::widen(raw), valid * sizeof(Compute));
    }
  }
  static void combine(void* wide, const void* a, const void* b, std::size_t count) {
    auto* to = static_cast<std::byte*>(wide);
    auto* from_a = static_cast<const std::byte*>(a);
    auto* from_b = static_cast<const std::byte*>(b);
    for (std::size_t at = 0; at < count; at += kLanes) {
      const std::size_t bytes = (count - at < kLanes ? count - at : kLanes) * sizeof(Compute);
      const std::size_t offset = at * sizeof(Compute);
      store(to + offset,
            apply(load<Wide>(from_a + offset, bytes), load<Wide>(from_b + offset, bytes)), bytes);
    }
  }
  static void finish(void* dst, const void* wide, std::size_t count, const Scale& scale) {
    auto* to = static_cast<std::byte*>(dst);
    auto* from = static_cast<const std::byte*>(wide);
    for (std::size_t at = 0; at < count; at += kLanes) {
      const std::size_t valid = count - at < kLanes ? count - at : kLanes;
      const Wide v = load<Wide>(from + at * sizeof(Compute), valid * sizeof(Compute));
      store(to + at * sizeof(Element), L::narrow(finished(v, scale)), valid * sizeof(Element));
    }
  }
  static constexpr Kernel kernel() {
    return {sizeof(Element), sizeof(Compute), &fold, &widen, &combine, &finish};
  }
};

template <class Isa, class L>
constexpr void fill(KernelTable& table, DType dtype) {
  table.at(dtype, ReduceOp::kSum) = Loops<Isa, L, Sum>::kernel();
  table.at(dtype, ReduceOp::kAverage) = Loops<Isa, L, Sum>::kernel();
  table.at(dtype, ReduceOp::kMin) = Loops<Isa, L, Min>::kernel();
  table.at(dtype, ReduceOp::kMax) = Loops<Isa, L, Max>::kernel();
  table.at(dtype, ReduceOp::kProduct) = Loops<Isa, L, Product>::kernel();
}

// Isa gives kBytes (of a vector register) and Half, BFloat: conversions of kBytes / 4 lanes.
template <class Isa>
constexpr KernelTable make_table() {
  KernelTable table;
  auto plain = [&]<class T>(T, DType dtype) {
    using Conversion = Plain<T, static_cast<int>(Isa::kBytes / sizeof(T))>;
    fill<Isa, Lanes<Isa, T, T, Conversion>>(table, dtype);
  };
  plain(std::uint8_t{}, DType::kUint8);
  plain(std::int8_t{}, DType::kInt8);
  plain(std::uint16_t{}, DType::kUint16);
  plain(std::int16_t{}, DType::kInt16);
  plain(std::int32_t{}, DType::kInt32);
  plain(std::int64_t{}, DType::kInt64);
  plain(std::uint32_t{}, DType::kUint32);
  plain(std::uint64_t{}, DType::kUint64);
  plain(float{}, DType::kFloat32);
  plain(double{}, DType::kFloat64);
  fill<Isa, Lanes<Isa, std::uint16_t, float, typename Isa::Half>>(table, DType::kFloat16);
  fill<Isa, Lanes<Isa, std::uint16_t, float, typename Isa::BFloat>>(table, DType::kBFloat16);
  using Byte =
      Lanes<Isa, std::uint8_t, std::uint8_t, Plain<std::uint8_t, static_cast<int>(Isa::kBytes)>>;
  table.at(DType::kBool, ReduceOp::kSum) = Loops<Isa, Byte, Max>::kernel();
  table.at(DType::kBool, ReduceOp::kMax) = Loops<Isa, Byte, Max>::kernel();
  table.at(DType::kBool, ReduceOp::kMin) = Loops<Isa, Byte, Min>::kernel();
  table.at(DType::kBool, ReduceOp::kProduct) = Loops<Isa, Byte, Min>::kernel();
  return table;
}

}  // namespace hv::runtime::simd
