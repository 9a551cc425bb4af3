// Arithmetic on the gradients and values of the optimizers: float32 or float64, host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hv/optimizer.h"
#include "hv/types.h"

namespace hv::runtime {

bool is_trainable(const TensorView& tensor);  // a type and place these functions know

template <class T>
std::span<T> elements(const TensorView& tensor) {
  return {static_cast<T*>(tensor.data), static_cast<std::size_t>(tensor.count())};
}

// Calls f with a value of the tensor's element type.
template <class F>
void with_type_of(const TensorView& tensor, F&& f) {
  if (tensor.dtype == DType::kFloat64) {
    f(double{});
  } else {
    f(float{});
  }
}

// Zeros of a tensor's shape and type that own their memory; the view stays valid when moved.
struct OwnedTensor {
  std::unique_ptr<std::byte[]> memory;
  TensorView view;
};
OwnedTensor zeros_like(const TensorView& tensor);

void fill_zero(const TensorView& tensor);
void multiply(const TensorView& tensor, double factor);
void divide(const TensorView& tensor, double divisor);  // exact where the quotient is
void add_scaled(const TensorView& sum, const TensorView& term, double factor);

}  // namespace hv::runtime
