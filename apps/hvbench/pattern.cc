#include "apps/hvbench/pattern.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hv::bench {
namespace {

constexpr std::int64_t kTilePeriods = 256;

template <class T>
void store(double value, std::byte* at) {
  const auto converted = static_cast<T>(static_cast<std::int64_t>(value));  // integers wrap
  std::memcpy(at, &converted, sizeof converted);
}

void encode(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      return store<std::uint8_t>(value, at);
    case DType::kUint16:
    case DType::kInt16:
      return store<std::uint16_t>(value, at);
    case DType::kUint32:
    case DType::kInt32:
      return store<std::uint32_t>(value, at);
    case DType::kUint64:
    case DType::kInt64:
      return store<std::uint64_t>(value, at);
    case DType::kFloat32:
      return store<float>(value, at);
    case DType::kFloat64:
      return store<double>(value, at);
    case DType::kFloat16: {
      const Float16 half = to_float16(static_cast<float>(value));
      std::memcpy(at, &half, sizeof half);
      return;
    }
    case DType::kBFloat16: {
      const BFloat16 half = to_bfloat16(static_cast<float>(value));
      std::memcpy(at, &half, sizeof half);
      return;
    }
    case DType::kBool:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return;  // not among checkable_types()
  }
}

// The largest n such that every whole number up to n is exact.
std::int64_t exact_limit(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return 127;
    case DType::kUint8:
      return 255;
    case DType::kBFloat16:
      return 256;
    case DType::kFloat16:
      return 2048;
    case DType::kInt16:
      return 32767;
    case DType::kUint16:
      return 65535;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kFloat32:
    case DType::kFloat64:
      return std::int64_t{1} << 24;
    case DType::kBool:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return 1;
  }
  return 1;
}

// Ranks differ by -1, 0 or 1 and sum up to 0, whoever gives which: averages are whole numbers.
std::int64_t offset(std::int64_t rank, std::int64_t size, std::int64_t j) {
  const std::int64_t place = (rank + j) % size;
  if (size % 2 == 1 && place == size - 1) return 0;
  return place % 2 == 0 ? 1 : -1;
}

// So that each rank is lowest in some places and highest in others.
std::uint64_t scattered(std::int64_t rank, std::int64_t j) {
  const auto x = static_cast<std::uint64_t>(rank * kPeriod + j + 1) * 0x9e3779b97f4a7c15u;
  return (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u >> 33;
}

double input_value(DType dtype, ReduceOp reduce, std::int64_t rank, std::int64_t size,
                   std::int64_t j) {
  constexpr std::int64_t kSpread = 29, kTwos = 6;
  switch (reduce) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage: {
      const auto spread = std::clamp<std::int64_t>(exact_limit(dtype) / size, 1, kSpread);
      return static_cast<double>(1 + j % spread + offset(rank, size, j));
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return static_cast<double>(1 + scattered(rank, j) % 97);
    case ReduceOp::kProduct:
      return (rank + j) % size < kTwos ? 2 : 1;
    case ReduceOp::kAdasum:
      return 0;  // not among checkable_reductions()
  }
  return 0;
}

double reduced(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return a + b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kAdasum:
      return 0;
  }
  return 0;
}

}  // namespace

Pattern::Pattern(DType dtype, const std::function<double(std::int64_t)>& value)
    : element_(size_of(dtype)),
      tile_bytes_(static_cast<std::size_t>(kPeriod * kTilePeriods) * element_) {
  values_.resize(tile_bytes_ + static_cast<std::size_t>(kPeriod) * element_);
  for (std::int64_t j = 0; j < kPeriod; ++j) {
    const auto at = static_cast<std::size_t>(j) * element_;
    encode(dtype, value(j), &values_[at]);
    for (auto copy = at; copy < values_.size();
         copy += static_cast<std::size_t>(kPeriod) * element_) {
      std::memcpy(&values_[copy], &values_[at], element_);
    }
  }
}

std::span<const std::byte> Pattern::tile(std::int64_t phase) const {
  return std::span(values_).subspan(static_cast<std::size_t>(phase % kPeriod) * element_,
                                    tile_bytes_);
}

void Pattern::fill(std::span<std::byte> buffer, std::int64_t phase) const {
  const auto from = tile(phase);
  while (!buffer.empty()) {
    const auto n = std::min(from.size(), buffer.size());
    std::memcpy(buffer.data(), from.data(), n);
    buffer = buffer.subspan(n);
  }
}

std::int64_t Pattern::count_wrong(std::span<const std::byte> buffer, std::int64_t phase) const {
  const auto right = tile(phase);
  std::int64_t wrong = 0;
  while (!buffer.empty()) {
    const auto n = std::min(right.size(), buffer.size());
    if (std::memcmp(buffer.data(), right.data(), n) != 0) {
      for (std::size_t at = 0; at < n; at += element_) {
        wrong += std::memcmp(&buffer[at], &right[at], element_) != 0;
      }
    }
    buffer = buffer.subspan(n);
  }
  return wrong;
}

Pattern input_pattern(DType dtype, ReduceOp reduce, int rank, int size) {
  return {dtype, [=](std::int64_t j) { return input_value(dtype, reduce, rank, size, j); }};
}

Pattern expected_pattern(DType dtype, ReduceOp reduce, int size) {
  return {dtype, [=](std::int64_t j) {
            double all = input_value(dtype, reduce, 0, size, j);
            for (int rank = 1; rank < size; ++rank) {
              all = reduced(reduce, all, input_value(dtype, reduce, rank, size, j));
            }
            return reduce == ReduceOp::kAverage ? all / size : all;
          }};
}

std::vector<DType> checkable_types() {
  return {DType::kUint8,   DType::kInt8,     DType::kUint16,  DType::kInt16,
          DType::kUint32,  DType::kInt32,    DType::kUint64,  DType::kInt64,
          DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
}

std::vector<ReduceOp> checkable_reductions() {
  return {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
}

}  // namespace hv::bench
