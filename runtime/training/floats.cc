#include "runtime/training/floats.h"

#include <algorithm>

namespace hv::runtime {

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

}  // namespace hv::runtime
