// The pack kernels, from their own source, over every size and alignment that makes a difference.
#include "tests/gpu/standin/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "hv/types.h"

namespace hv {
namespace {

using runtime::nccl::kBlockBytes;
using runtime::nccl::kPlace;
using runtime::nccl::kThreads;
using runtime::nccl::PackArgs;

const std::vector<std::size_t> kCounts{1,    2,    7,    15,    16,    17,    64,
                                       1023, 4096, 4099, 65535, 65536, 65537, 131'073};

struct Packing {
  std::vector<std::byte> tensors, buffer;
  PackArgs args{};
  unsigned blocks = 0;
};

// Tensors of these counts, each `skip` bytes behind an aligned address.
Packing make(std::size_t element, std::size_t wire, std::size_t skip) {
  Packing p;
  std::size_t at = 0, place = 0;
  std::vector<std::size_t> offsets, places;
  for (std::size_t count : kCounts) {
    offsets.push_back(at + skip);
    places.push_back(place / kPlace);
    at += (count * element + skip + 127) / 64 * 64;
    place += (count * wire + kPlace - 1) / kPlace * kPlace;
  }
  p.tensors.resize(at + 64);
  p.buffer.resize(place + 64);
  const auto aligned = [](std::vector<std::byte>& memory) {
    return (reinterpret_cast<unsigned long long>(memory.data()) + 63) / 64 * 64;
  };
  p.args.buffer = aligned(p.buffer);
  p.args.scale = 1;
  p.args.pieces = static_cast<unsigned>(kCounts.size());
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    p.args.piece[i] = {aligned(p.tensors) + offsets[i], kCounts[i],
                       static_cast<unsigned>(places[i]), p.blocks};
    p.blocks += static_cast<unsigned>((kCounts[i] * element + kBlockBytes - 1) / kBlockBytes);
  }
  return p;
}

template <class T>
T* tensor(const Packing& p, std::size_t i) {
  return reinterpret_cast<T*>(p.args.piece[i].tensor);
}
template <class T>
T* packed(const Packing& p, std::size_t i) {
  return reinterpret_cast<T*>(p.args.buffer + std::size_t{p.args.piece[i].place} * kPlace);
}

void run(const char* kernel, Packing& p, bool unpack, double scale) {
  p.args.unpack = unpack;
  p.args.scale = scale;
  standin::run_kernel(standin::find_kernel(kernel), p.args, p.blocks, kThreads);
}

TEST(PackKernels, BytesOfAnyAlignmentComeBackAndTouchNothingElse) {
  for (std::size_t skip : {0, 1, 2, 4, 6, 8, 16}) {
    Packing p = make(1, 1, skip);
    std::iota(reinterpret_cast<unsigned char*>(p.tensors.data()),
              reinterpret_cast<unsigned char*>(p.tensors.data() + p.tensors.size()), skip);
    const auto before = p.tensors;
    run("hv_move_bytes", p, false, 1);
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      ASSERT_EQ(std::memcmp(packed<std::byte>(p, i), tensor<std::byte>(p, i), kCounts[i]), 0)
          << kCounts[i] << " bytes, " << skip;
      std::memset(tensor<std::byte>(p, i), 0, kCounts[i]);
    }
    run("hv_move_bytes", p, true, 1);
    ASSERT_EQ(p.tensors, before) << skip;
  }
}

template <class T, class Wire, class FromFloat, class ToFloat, class WireToFloat>
void check_conversion(const char* kernel, FromFloat from, ToFloat to, WireToFloat wire_to) {
  for (std::size_t skip : {std::size_t{0}, sizeof(T), 2 * sizeof(T)}) {
    Packing p = make(sizeof(T), sizeof(Wire), skip);
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      for (std::size_t k = 0; k < kCounts[i]; ++k) {
        tensor<T>(p, i)[k] = from(static_cast<float>((k + i) % 100));
      }
    }
    run(kernel, p, false, 2);
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      for (std::size_t k = 0; k < kCounts[i]; ++k) {
        ASSERT_EQ(wire_to(packed<Wire>(p, i)[k]), static_cast<float>((k + i) % 100 * 2))
            << kernel << ", element " << k << " of " << kCounts[i];
      }
    }
    run(kernel, p, true, 0.25);
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      for (std::size_t k = 0; k < kCounts[i]; ++k) {
        ASSERT_EQ(to(tensor<T>(p, i)[k]), static_cast<float>((k + i) % 100) / 2)
            << kernel << ", element " << k << " of " << kCounts[i];
      }
    }
  }
}

TEST(PackKernels, ScaleAndConvertEveryElementOnce) {
  const auto same = [](auto value) { return static_cast<float>(value); };
  const auto half = [](float value) { return to_float16(value); };
  const auto brain = [](float value) { return to_bfloat16(value); };
  const auto wide = [](auto value) { return to_float(value); };
  const auto single = [](float value) { return value; };
  check_conversion<float, float>("hv_move_f32", single, same, same);
  check_conversion<double, double>("hv_move_f64", single, same, same);
  check_conversion<Float16, Float16>("hv_move_f16", half, wide, wide);
  check_conversion<BFloat16, BFloat16>("hv_move_bf16", brain, wide, wide);
  check_conversion<float, Float16>("hv_move_f32_f16", single, same, wide);
  check_conversion<float, BFloat16>("hv_move_f32_bf16", single, same, wide);
}

}  // namespace
}  // namespace hv
