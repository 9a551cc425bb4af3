// Collectives with known answers, for every type: inputs are small whole numbers made from rank and
// position, so every sum and product is exact (or wraps) in every type, and the expected result is
// computed here in a way of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hv/types.h"

namespace hv::test {

inline const std::vector<DType>& reducible_dtypes() {
  static const std::vector<DType> all{
      DType::kUint8,   DType::kInt8,     DType::kUint16, DType::kInt16,   DType::kInt32,
      DType::kInt64,   DType::kUint32,   DType::kUint64, DType::kFloat16, DType::kFloat32,
      DType::kFloat64, DType::kBFloat16, DType::kBool};
  return all;
}
inline const std::vector<ReduceOp>& reduce_ops() {
  static const std::vector<ReduceOp> all{ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin,
                                         ReduceOp::kMax, ReduceOp::kProduct};
  return all;
}

// What rank `rank` gives at position `i`: 0..3, so that products over 8 ranks stay exact in
// float16.
inline std::int64_t input_value(DType dtype, ReduceOp op, int rank, std::int64_t i) {
  const std::int64_t mixed = (rank * 5 + i * 3 + i / 7) % 7;
  if (dtype == DType::kBool) return mixed % 3 == 0;
  if (op == ReduceOp::kProduct) return 1 + mixed % 2;
  return mixed;
}

// Writes whole number `value` as element `i`.
inline void put(DType dtype, void* data, std::int64_t i, double value) {
  auto store = [&]<class T>(T v) {
    std::memcpy(static_cast<std::byte*>(data) + i * static_cast<std::int64_t>(sizeof v), &v,
                sizeof v);
  };
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return store(static_cast<std::uint8_t>(whole));
    case DType::kBool:
      return store(static_cast<std::uint8_t>(whole != 0));
    case DType::kUint16:
    case DType::kInt16:
      return store(static_cast<std::uint16_t>(whole));
    case DType::kInt32:
    case DType::kUint32:
      return store(static_cast<std::uint32_t>(whole));
    case DType::kInt64:
    case DType::kUint64:
      return store(whole);
    case DType::kFloat16:
      return store(to_float16(static_cast<float>(value)).bits);
    case DType::kBFloat16:
      return store(to_bfloat16(static_cast<float>(value)).bits);
    case DType::kFloat32:
      return store(static_cast<float>(value));
    case DType::kFloat64:
      return store(value);
  }
}

inline bool is_floating(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

inline std::vector<std::byte> input_tensor(DType dtype, ReduceOp op, int rank, std::int64_t count) {
  std::vector<std::byte> data(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    put(dtype, data.data(), i, static_cast<double>(input_value(dtype, op, rank, i)));
  }
  return data;
}

inline std::vector<std::byte> expected_allreduce(DType dtype, ReduceOp op, int ranks,
                                                 std::int64_t count) {
  std::vector<std::byte> data(static_cast<std::size_t>(count) * size_of(dtype));
  // Inputs repeat every 49 positions.
  for (std::int64_t i = 0; i < count; ++i) {
    if (i >= 49) {
      std::memcpy(data.data() + static_cast<std::size_t>(i) * size_of(dtype),
                  data.data() + static_cast<std::size_t>(i - 49) * size_of(dtype), size_of(dtype));
      continue;
    }
    std::int64_t value = input_value(dtype, op, 0, i);
    for (int r = 1; r < ranks; ++r) {
      const std::int64_t v = input_value(dtype, op, r, i);
      switch (op) {
        case ReduceOp::kSum:
        case ReduceOp::kAverage:
        case ReduceOp::kAdasum:
          value += v;
          break;
        case ReduceOp::kMin:
          value = v < value ? v : value;
          break;
        case ReduceOp::kMax:
          value = v > value ? v : value;
          break;
        case ReduceOp::kProduct:
          value *= v;
          break;
      }
    }
    double result = static_cast<double>(value);
    if (op == ReduceOp::kAverage) {
      result = is_floating(dtype) ? result / ranks : static_cast<double>(value / ranks);
    }
    put(dtype, data.data(), i, result);
  }
  return data;
}

// Position of the first element that differs, -1 if none does.
inline std::int64_t first_difference(DType dtype, const std::vector<std::byte>& a,
                                     const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return 0;
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return -1;
  std::size_t i = 0;
  while (a[i] == b[i]) ++i;
  return static_cast<std::int64_t>(i / size_of(dtype));
}

}  // namespace hv::test
