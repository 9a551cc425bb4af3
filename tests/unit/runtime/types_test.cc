#include "hv/types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hv {
namespace {

// The value of a binary16 from its definition.
double value_of(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) ? -magnitude : magnitude;
}

TEST(Float16, EveryValueIsWhatItsBitsSay) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = to_float(Float16{bits});
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (bits & 1023) != 0);
      EXPECT_EQ(std::isinf(value), (bits & 1023) == 0);
    } else {
      ASSERT_EQ(value, value_of(bits)) << i;
    }
    if (!std::isnan(value)) {
      ASSERT_EQ(to_float16(value).bits, bits);
    }
  }
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  for (std::uint32_t i = 0; i + 1 < 0x7c00; ++i) {
    const double low = value_of(static_cast<std::uint16_t>(i));
    const double high = value_of(static_cast<std::uint16_t>(i + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<std::uint16_t>(i % 2 == 0 ? i : i + 1);
    ASSERT_EQ(to_float16(middle).bits, even) << i;
    ASSERT_EQ(to_float16(std::nextafter(middle, 0.0f)).bits, i);
    ASSERT_EQ(to_float16(std::nextafter(middle, 1e9f)).bits, i + 1);
    ASSERT_EQ(to_float16(-middle).bits, even | 0x8000);
  }
}

TEST(Float16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65519.9f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_float16(1e-30f).bits, 0);
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  for (std::uint32_t i = 0; i < 0x7f80; ++i) {
    const auto at = [](std::uint32_t upper, std::uint32_t lower) {
      return std::bit_cast<float>(upper << 16 | lower);
    };
    ASSERT_EQ(to_float(BFloat16{static_cast<std::uint16_t>(i)}), at(i, 0));
    ASSERT_EQ(to_bfloat16(at(i, 0)).bits, i);
    ASSERT_EQ(to_bfloat16(at(i, 0x7fff)).bits, i);
    ASSERT_EQ(to_bfloat16(at(i, 0x8000)).bits, i % 2 == 0 ? i : i + 1);
    ASSERT_EQ(to_bfloat16(at(i, 0x8001)).bits, i + 1);
  }
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Types, HaveSizesAndNames) {
  EXPECT_EQ(size_of(DType::kFloat8E4M3), 1u);
  EXPECT_EQ(size_of(DType::kBFloat16), 2u);
  EXPECT_EQ(size_of(DType::kUint32), 4u);
  EXPECT_EQ(size_of(DType::kFloat64), 8u);
  EXPECT_EQ(to_string(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(to_string(ReduceOp::kAverage), "average");
  EXPECT_EQ(to_string(Shape{3, 4}), "[3, 4]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
}

}  // namespace
}  // namespace hv
