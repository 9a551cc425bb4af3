// Gradients in 16 bits on the wire: half the bytes of float32. Sums of them are accumulated in
// float32 by every reduction, so only the rounding of inputs and result is lost.
#pragma once

#include <cstdint>
#include <vector>

#include "hv/types.h"

namespace hv {

// kFloat16: 11 bits of precision, up to 65504, beyond that infinite. kBFloat16: 8 bits of
// precision, the range of float32.
enum class Compression : std::uint8_t { kNone, kFloat16, kBFloat16 };

// A copy of a tensor in 16 bits, to be used for one operation after the other:
//
//   hv::CompressedTensor half(gradient.shape, hv::Compression::kBFloat16);
//   half.pack(gradient);
//   world.allreduce("gradient", half.view()).wait();
//   half.unpack(gradient);
//
// For one thread. Throws kInvalidArgument for kNone, and for tensors that are not float32 or
// float64 in host memory or have another number of elements.
class HV_API CompressedTensor {
 public:
  CompressedTensor(Shape shape, Compression kind);
  // Rounded to nearest, ties to even, after the division by `divisor`.
  void pack(const TensorView& from, double divisor = 1.0);
  void unpack(const TensorView& into) const;
  TensorView view();  // of the copy, whose memory is ours

 private:
  void check(const char* call, const TensorView& tensor) const;
  Shape shape_;
  Compression kind_;
  std::vector<std::uint16_t> bits_;
};

}  // namespace hv
