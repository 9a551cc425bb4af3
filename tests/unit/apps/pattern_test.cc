#include "apps/hvbench/pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace hv::bench {
namespace {

// Bytes of `count` elements of a pattern.
std::vector<std::byte> filled(const Pattern& pattern, DType dtype, std::size_t count,
                              std::int64_t phase) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  pattern.fill(bytes, phase);
  return bytes;
}

double element(std::span<const std::byte> bytes, DType dtype, std::size_t i) {
  auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kUint8:
      return as(std::uint8_t{});
    case DType::kInt8:
      return as(std::int8_t{});
    case DType::kUint16:
      return as(std::uint16_t{});
    case DType::kInt16:
      return as(std::int16_t{});
    case DType::kUint32:
      return as(std::uint32_t{});
    case DType::kInt32:
      return as(std::int32_t{});
    case DType::kUint64:
      return static_cast<double>(as(std::uint64_t{}));
    case DType::kInt64:
      return static_cast<double>(as(std::int64_t{}));
    case DType::kFloat16:
      return static_cast<double>(to_float(as(Float16{})));
    case DType::kBFloat16:
      return static_cast<double>(to_float(as(BFloat16{})));
    case DType::kFloat32:
      return static_cast<double>(as(float{}));
    case DType::kFloat64:
      return as(double{});
    case DType::kBool:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double reduce_two(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  return op == ReduceOp::kProduct ? a * b : a + b;
}

// Reducing what the ranks' buffers really hold gives, exactly, what is expected.
TEST(Pattern, ExpectationsHoldForEveryTypeAndReduction) {
  constexpr std::size_t kCount = 130;
  for (DType dtype : checkable_types()) {
    for (ReduceOp op : checkable_reductions()) {
      for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 16, 61, 64}) {
        const auto expected = filled(expected_pattern(dtype, op, size), dtype, kCount, 3);
        std::vector<double> all;
        for (int rank = 0; rank < size; ++rank) {
          const auto bytes = filled(input_pattern(dtype, op, rank, size), dtype, kCount, 3);
          for (std::size_t i = 0; i < kCount; ++i) {
            const double value = element(bytes, dtype, i);
            if (rank == 0) all.push_back(value);
            if (rank > 0) all[i] = reduce_two(op, all[i], value);
          }
        }
        for (std::size_t i = 0; i < kCount; ++i) {
          const double value = op == ReduceOp::kAverage ? all[i] / size : all[i];
          ASSERT_EQ(element(expected, dtype, i), value)
              << to_string(dtype) << " " << to_string(op) << " of " << size << ", element " << i;
        }
      }
    }
  }
}

// A rank left out, or counted twice, must show in every reduction but min and max, where the
// others may hide it in some places but not in all.
TEST(Pattern, AMissingRankShows) {
  constexpr int kSize = 4;
  for (ReduceOp op : checkable_reductions()) {
    const auto full = filled(expected_pattern(DType::kFloat64, op, kSize), DType::kFloat64, 61, 0);
    for (int missing = 0; missing < kSize; ++missing) {
      std::vector<double> rest;
      for (int rank = 0; rank < kSize; ++rank) {
        if (rank == missing) continue;
        const auto in =
            filled(input_pattern(DType::kFloat64, op, rank, kSize), DType::kFloat64, 61, 0);
        for (std::size_t i = 0; i < 61; ++i) {
          const double value = element(in, DType::kFloat64, i);
          if (rest.size() <= i) {
            rest.push_back(value);
          } else {
            rest[i] = reduce_two(op, rest[i], value);
          }
        }
      }
      int differing = 0;
      for (std::size_t i = 0; i < 61; ++i) {
        const double value = op == ReduceOp::kAverage ? rest[i] / kSize : rest[i];
        differing += element(full, DType::kFloat64, i) != value;
      }
      EXPECT_GE(differing, 5) << to_string(op) << " without rank " << missing;
    }
  }
}

TEST(Pattern, CountsWrongElements) {
  const auto pattern = expected_pattern(DType::kInt32, ReduceOp::kMax, 3);
  constexpr std::size_t kCount = 100'000;  // several tiles
  auto bytes = filled(pattern, DType::kInt32, kCount, 5);
  EXPECT_EQ(pattern.count_wrong(bytes, 5), 0);
  EXPECT_EQ(pattern.count_wrong(bytes, 5 + kPeriod), 0);
  EXPECT_GT(pattern.count_wrong(bytes, 6), 90'000);
  for (std::size_t at : {std::size_t{0}, std::size_t{50'001}, kCount - 1}) {
    bytes[at * 4] ^= std::byte{1};
  }
  EXPECT_EQ(pattern.count_wrong(bytes, 5), 3);
  EXPECT_EQ(pattern.count_wrong({}, 5), 0);
}

}  // namespace
}  // namespace hv::bench
