#include "hv/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hv/error.h"

namespace hv {
namespace {

TEST(LearningRate, GrowsWithTheGlobalBatch) {
  EXPECT_DOUBLE_EQ(LearningRate({.rate = 0.1, .reference_batch = 64, .global_batch = 64}).at(0),
                   0.1);
  const LearningRate four({.rate = 0.1, .reference_batch = 64, .global_batch = 256});
  EXPECT_DOUBLE_EQ(four.peak(), 0.4);
  EXPECT_DOUBLE_EQ(four.at(0), 0.4);
  EXPECT_DOUBLE_EQ(four.at(1'000'000), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate({.rate = 0.1, .reference_batch = 64, .global_batch = 16}).at(0),
                   0.025);
}

TEST(LearningRate, WarmsUpFromTheUnscaledRate) {
  const LearningRate rate(
      {.rate = 0.1, .reference_batch = 10, .global_batch = 50, .warmup_steps = 4});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.5);
}

TEST(LearningRate, ASmallerBatchNeedsNoWarmUp) {
  const LearningRate rate(
      {.rate = 0.1, .reference_batch = 10, .global_batch = 5, .warmup_steps = 4});
  for (int step = 0; step < 6; ++step) EXPECT_DOUBLE_EQ(rate.at(step), 0.05);
}

TEST(LearningRate, DecaysAlongACosine) {
  const LearningRate rate({.rate = 1.0, .warmup_steps = 10, .total_steps = 20});
  EXPECT_DOUBLE_EQ(rate.at(10), 1.0);
  EXPECT_NEAR(rate.at(15), 0.5, 1e-12);
  EXPECT_NEAR(rate.at(20), 0.0, 1e-12);
  EXPECT_NEAR(rate.at(30), 0.0, 1e-12);
  for (int step = 10; step < 20; ++step) EXPECT_GT(rate.at(step), rate.at(step + 1));
  const LearningRate tenth({.rate = 1.0, .total_steps = 10, .final_fraction = 0.1});
  EXPECT_NEAR(tenth.at(10), 0.1, 1e-12);
  EXPECT_NEAR(LearningRate({.rate = 1.0, .warmup_steps = 3, .total_steps = 3}).at(3), 0.0, 1e-12);
}

TEST(LearningRate, RefusesWhatMakesNoSense) {
  EXPECT_THROW(LearningRate({.rate = 0}), Error);
  EXPECT_THROW(LearningRate({.rate = NAN}), Error);
  EXPECT_THROW(LearningRate({.reference_batch = 0}), Error);
  EXPECT_THROW(LearningRate({.global_batch = 0}), Error);
  EXPECT_THROW(LearningRate({.warmup_steps = -1}), Error);
  EXPECT_THROW(LearningRate({.warmup_steps = 5, .total_steps = 4}), Error);
  EXPECT_THROW(LearningRate({.final_fraction = 1.5}), Error);
}

}  // namespace
}  // namespace hv
