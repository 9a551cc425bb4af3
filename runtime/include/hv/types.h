// Types of the public API: element types, reductions, shapes and views of memory that the caller
// lends. Nothing here owns tensor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hv/export.h"

namespace hv {

// Element type. The first ten values are those of Horovod's core.
enum class DType : std::uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kBFloat16 = 10,
  kUint32 = 11,
  kUint64 = 12,
  kFloat8E4M3 = 13,  // moved; reduced only on GPUs, by NCCL 2.24 and later
  kFloat8E5M2 = 14,  // as above
};

// Reduction. Values as in Horovod. kAverage divides the sum by the number of ranks.
enum class ReduceOp : std::uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
};

HV_API std::size_t size_of(DType dtype);  // bytes per element
HV_API std::string_view to_string(DType dtype);
HV_API std::string_view to_string(ReduceOp op);

// 16-bit floats as storage: IEEE binary16 and bfloat16 (the upper half of a binary32). Conversions
// round to nearest, ties to even; NaN stays NaN.
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};
HV_API Float16 to_float16(float value);
HV_API BFloat16 to_bfloat16(float value);
HV_API float to_float(Float16 value);
HV_API float to_float(BFloat16 value);

template <class T>
struct dtype_of;
#define HV_DTYPE(T, D)                       \
  template <>                                \
  struct dtype_of<T> {                       \
    static constexpr DType value = DType::D; \
  };
HV_DTYPE(std::uint8_t, kUint8)
HV_DTYPE(std::int8_t, kInt8)
HV_DTYPE(std::uint16_t, kUint16)
HV_DTYPE(std::int16_t, kInt16)
HV_DTYPE(std::int32_t, kInt32)
HV_DTYPE(std::int64_t, kInt64)
HV_DTYPE(std::uint32_t, kUint32)
HV_DTYPE(std::uint64_t, kUint64)
HV_DTYPE(Float16, kFloat16)
HV_DTYPE(BFloat16, kBFloat16)
HV_DTYPE(float, kFloat32)
HV_DTYPE(double, kFloat64)
HV_DTYPE(bool, kBool)
#undef HV_DTYPE

using Shape = std::vector<std::int64_t>;
HV_API std::int64_t element_count(const Shape& shape);  // product; 1 for a scalar (no dimensions)
HV_API std::string to_string(const Shape& shape);       // "[3, 4]"

// A dense row-major tensor in memory that the caller lends until the operation's handle is done.
// device is -1 for host memory, else the ordinal of the CUDA device that this rank uses: that of
// its local rank among those it sees, or HVRUN_DEVICE. stream (a cudaStream_t; null: the default
// one) orders a device tensor: an operation begins when the work that is on it at the call is done.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;
  int device = -1;
  void* stream = nullptr;

  std::int64_t count() const { return element_count(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
};

template <class T>
TensorView view(T* data, Shape shape) {
  return {data, dtype_of<T>::value, std::move(shape)};
}
template <class T>
TensorView device_view(T* data, Shape shape, int device, void* stream = nullptr) {
  return {data, dtype_of<T>::value, std::move(shape), device, stream};
}
template <class T>
TensorView view(std::span<T> data) {
  return {data.data(), dtype_of<T>::value, {static_cast<std::int64_t>(data.size())}};
}
template <class T>
TensorView view(std::vector<T>& data) {
  return view(std::span<T>(data));
}

}  // namespace hv
