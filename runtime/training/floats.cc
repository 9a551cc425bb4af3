#include "runtime/training/floats.h"

#include <algorithm>

namespace hv::runtime {
namespace {

std::uint16_t to_half(float value, Compression kind) {
  return kind == Compression::kBFloat16 ? to_bfloat16(value).bits : to_float16(value).bits;
}

float from_half(std::uint16_t bits, Compression kind) {
  return kind == Compression::kBFloat16 ? to_float(BFloat16{bits}) : to_float(Float16{bits});
}

}  // namespace

bool is_trainable(const TensorView& tensor) {
  return tensor.device < 0 && (tensor.dtype == DType::kFloat32 || tensor.dtype == DType::kFloat64);
}

OwnedTensor zeros_like(const TensorView& tensor) {
  OwnedTensor zeros{std::make_unique<std::byte[]>(tensor.bytes()), tensor};
  zeros.view.data = zeros.memory.get();
  return zeros;
}

void fill_zero(const TensorView& tensor) {
  with_type_of(tensor, [&]<class T>(T) {
    auto values = elements<T>(tensor);
    std::fill(values.begin(), values.end(), T{0});
  });
}

void multiply(const TensorView& tensor, double factor) {
  with_type_of(tensor, [&]<class T>(T) {
    const auto by = static_cast<T>(factor);
    for (T& value : elements<T>(tensor)) value *= by;
  });
}

void divide(const TensorView& tensor, double divisor) {
  with_type_of(tensor, [&]<class T>(T) {
    const auto by = static_cast<T>(divisor);
    for (T& value : elements<T>(tensor)) value /= by;
  });
}

void add_scaled(const TensorView& sum, const TensorView& term, double factor) {
  with_type_of(sum, [&]<class T>(T) {
    const auto by = static_cast<T>(factor);
    T* into = elements<T>(sum).data();
    for (const T& value : elements<T>(term)) *into++ += by * value;
  });
}

void compress(const TensorView& from, double divisor, Compression kind,
              std::span<std::uint16_t> into) {
  with_type_of(from, [&]<class T>(T) {
    const auto by = static_cast<T>(divisor);
    auto next = into.begin();
    for (const T& value : elements<T>(from)) {
      *next++ = to_half(static_cast<float>(value / by), kind);
    }
  });
}

void decompress(std::span<const std::uint16_t> from, Compression kind, const TensorView& into) {
  with_type_of(into, [&]<class T>(T) {
    auto next = from.begin();
    for (T& value : elements<T>(into)) value = static_cast<T>(from_half(*next++, kind));
  });
}

}  // namespace hv::runtime
