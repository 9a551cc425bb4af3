// The vector loops against scalar code written another way, for every instruction set that this
// machine runs.
#include "runtime/collective/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/support/collective_check.h"

namespace hv::runtime {
namespace {

// One element, as the scalar reference computes with it.
template <class T>
auto wide(T v) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_float(v);
  } else {
    return v;
  }
}
template <class T, class W>
T narrow(W v) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(v);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(v);
  } else {
    return static_cast<T>(v);
  }
}

template <class W>
W apply(ReduceOp op, W a, W b) {
  switch (op) {
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return b > a ? b : a;
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<W>) {
        return static_cast<W>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      } else {
        return a * b;
      }
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
    case ReduceOp::kAdasum:
      break;
  }
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class W>
W scaled(W v, double factor) {
  if (factor == 1.0) return v;
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(static_cast<double>(v) * factor);
  } else {
    return v * static_cast<W>(factor);
  }
}

template <class T>
std::vector<T> random_values(std::mt19937& random, std::size_t count) {
  std::vector<T> values(count);
  for (auto& v : values) {
    if constexpr (std::is_integral_v<T>) {
      v = static_cast<T>(random());
    } else {
      const double x =
          std::ldexp(static_cast<double>(random() % 4096) - 2048, int(random() % 8) - 6);
      if constexpr (std::is_floating_point_v<T>) {
        v = static_cast<T>(x);
      } else {
        v = narrow<T>(static_cast<float>(x));
      }
    }
  }
  return values;
}

template <class T>
class ReduceTest : public testing::Test {};
using Types =
    testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint32_t, std::uint64_t, Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(ReduceTest, Types);

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

TYPED_TEST(ReduceTest, FoldsLikeScalarCode) {
  using T = TypeParam;
  const DType dtype = dtype_of<T>::value;
  std::mt19937 random(1);
  for (auto set : instruction_sets()) {
    for (ReduceOp op : kOps) {
      for (std::size_t count : {0, 1, 3, 15, 16, 17, 63, 64, 65, 130, 257, 300}) {
        for (int sources : {1, 2, 3, 5}) {
          const bool small = std::is_integral_v<T>;  // scales that keep values in range
          const Scale scale = make_scale(dtype, op, 3, small ? 1.0 : 0.5, small ? 1.0 : 4.0);
          const std::size_t shift = count % 3;  // elements off any alignment
          std::vector<std::vector<T>> inputs;
          std::vector<const void*> src;
          for (int s = 0; s < sources; ++s) {
            inputs.push_back(random_values<T>(random, count + shift));
          }
          for (auto& input : inputs) src.push_back(input.data() + shift);
          std::vector<T> result(count + shift + 1), before = result;
          kernel(dtype, op, set).fold(result.data() + shift, src.data(), sources, count, scale);
          for (std::size_t i = 0; i < count; ++i) {
            auto acc = scaled(wide(inputs[0][i + shift]), scale.pre);
            for (int s = 1; s < sources; ++s) {
              acc = apply(op, acc, scaled(wide(inputs[s][i + shift]), scale.pre));
            }
            if (scale.divisor != 1) acc = acc / static_cast<decltype(acc)>(scale.divisor);
            const T expected = narrow<T>(scaled(acc, scale.post));
            ASSERT_EQ(std::memcmp(&result[i + shift], &expected, sizeof(T)), 0)
                << set << ", " << to_string(op) << ", count " << count << ", element " << i;
          }
          EXPECT_EQ(std::memcmp(&result[count + shift], &before[count + shift], sizeof(T)), 0);
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, StepsGiveTheSameBitsAsOneFold) {
  using T = TypeParam;
  const DType dtype = dtype_of<T>::value;
  std::mt19937 random(2);
  for (auto set : instruction_sets()) {
    for (ReduceOp op : kOps) {
      const Kernel& loops = kernel(dtype, op, set);
      const std::size_t count = 301;
      const auto a = random_values<T>(random, count), b = random_values<T>(random, count);
      const Scale scale = make_scale(dtype, op, 3, 1.0, 1.0);
      std::vector<T> folded(count), stepped(count);
      const void* src[] = {a.data(), b.data()};
      loops.fold(folded.data(), src, 2, count, scale);
      std::vector<std::byte> wide_a(count * loops.wide_size), wide_b(wide_a);
      loops.widen(wide_a.data(), a.data(), count);
      loops.widen(wide_b.data(), b.data(), count);
      loops.combine(wide_a.data(), wide_a.data(), wide_b.data(), count);
      loops.finish(stepped.data(), wide_a.data(), count, scale);
      EXPECT_EQ(std::memcmp(folded.data(), stepped.data(), count * sizeof(T)), 0)
          << set << ", " << to_string(op);
    }
  }
}

TEST(Reduce, NanWinsWhereverItStands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (auto set : instruction_sets()) {
    for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
      const std::vector<float> a(20, nan), b(20, 1.0f);
      for (const auto& sources : {std::vector<const void*>{a.data(), b.data()},
                                  std::vector<const void*>{b.data(), a.data()}}) {
        std::vector<float> result(20);
        kernel(DType::kFloat32, op, set).fold(result.data(), sources.data(), 2, 20, Scale{});
        for (float v : result) EXPECT_TRUE(std::isnan(v)) << set << " " << to_string(op);
      }
    }
  }
}

TEST(Reduce, EveryHalfConvertsAlikeInEverySet) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (auto set : instruction_sets()) {
      const Kernel& loops = kernel(dtype, ReduceOp::kSum, set);
      std::vector<float> wide(all.size());
      loops.widen(wide.data(), all.data(), all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const float expected =
            dtype == DType::kFloat16 ? to_float(Float16{all[i]}) : to_float(BFloat16{all[i]});
        ASSERT_EQ(std::memcmp(&wide[i], &expected, sizeof expected), 0) << set << " " << i;
      }
      // Values between the representable ones, NaN among them.
      for (auto& v : wide) v *= 1.0003f;
      std::vector<std::uint16_t> back(all.size());
      loops.finish(back.data(), wide.data(), all.size(), Scale{});
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::uint16_t expected =
            dtype == DType::kFloat16 ? to_float16(wide[i]).bits : to_bfloat16(wide[i]).bits;
        ASSERT_EQ(back[i], expected) << set << " " << i;
      }
    }
  }
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  EXPECT_TRUE(check_reduction(DType::kBool, ReduceOp::kSum));
  EXPECT_FALSE(check_reduction(DType::kBool, ReduceOp::kAverage));
  EXPECT_FALSE(check_reduction(DType::kFloat8E4M3, ReduceOp::kSum));
  const auto adasum = check_reduction(DType::kInt32, ReduceOp::kAdasum);
  ASSERT_FALSE(adasum);
  EXPECT_EQ(adasum.error().code, base::Code::kInvalidArgument);
}

TEST(Reduce, AnAverageOfIntegersTruncatesTowardsZero) {
  const std::vector<std::int32_t> a{-3, -4, 7, 8}, b{-2, 0, 0, 1};
  std::vector<std::int32_t> result(4);
  const void* src[] = {a.data(), b.data()};
  kernel(DType::kInt32, ReduceOp::kAverage)
      .fold(result.data(), src, 2, 4, make_scale(DType::kInt32, ReduceOp::kAverage, 2, 1, 1));
  EXPECT_EQ(result, (std::vector<std::int32_t>{-2, -2, 3, 4}));
}

}  // namespace
}  // namespace hv::runtime
