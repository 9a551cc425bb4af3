#include "apps/top_k/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tests/support/inproc_world.h"

namespace hv::examples {
namespace {

using testing::ElementsAre;
using tests::run_ranks;

tests::InprocOptions three_ranks() { return {.size = 3, .per_host = 2}; }

TEST(TopK, WithAllEntriesIsTheAverage) {
  run_ranks(three_ranks(), [](World& world) {
    TopK top_k(world, 1);
    const auto r = static_cast<float>(world.rank());
    std::vector<float> gradient{3 * r, -6, 0};
    top_k.average("g", gradient);
    EXPECT_THAT(gradient, ElementsAre(3, -6, 0));
    EXPECT_EQ(top_k.bytes_sent(), 3u * 8);
  });
}

TEST(TopK, SendsTheLargestFirstAndNothingIsLost) {
  run_ranks(three_ranks(), [](World& world) {
    TopK top_k(world, 0.25);
    std::vector<float> gradient{1, -9, 3, 0};
    top_k.average("g", gradient);
    EXPECT_THAT(gradient, ElementsAre(0, -9, 0, 0));
    gradient = {1, 1, 1, 0};
    top_k.average("g", gradient);  // 2, 1, 4, 0 are waiting
    EXPECT_THAT(gradient, ElementsAre(0, 0, 4, 0));
    gradient = {0, 0, 0, 0};
    top_k.average("g", gradient);
    EXPECT_THAT(gradient, ElementsAre(2, 0, 0, 0));
  });
}

TEST(TopK, RanksSendDifferentEntries) {
  run_ranks(three_ranks(), [](World& world) {
    TopK top_k(world, 0.01);  // one entry at least
    std::vector<float> gradient(3, 1.0f);
    gradient[static_cast<std::size_t>(world.rank())] = 6;
    top_k.average("g", gradient);
    EXPECT_THAT(gradient, ElementsAre(2, 2, 2));
  });
}

TEST(TopK, AnEmptyGradientAndAWrongFraction) {
  run_ranks(three_ranks(), [](World& world) {
    std::vector<float> empty;
    TopK(world, 0.5).average("g", empty);
    for (const double fraction : {0.0, -1.0, 1.5, std::nan("")}) {
      EXPECT_THROW(TopK(world, fraction), Error);
    }
  });
}

// Each rank pulls towards a place of its own, so at the common optimum no rank's gradient is zero.
double distance_after_training(World& world, TopK::Feedback feedback) {
  constexpr int kSize = 20;
  TopK top_k(world, 0.1, feedback);
  std::vector<float> weights(kSize), wanted(kSize), gradient(kSize);
  for (int step = 0; step < 2000; ++step) {
    for (int i = 0; i < kSize; ++i) {
      const auto target = static_cast<float>((i * 7 + 11 * world.rank() * (i % 3)) % 13);
      if (step == 0) wanted[i] = target;
      gradient[i] = weights[i] - target;
    }
    top_k.average("g", gradient);
    for (int i = 0; i < kSize; ++i) weights[i] -= 0.02f * gradient[i];
  }
  world.allreduce("wanted", view(wanted)).wait();
  double distance = 0;
  for (int i = 0; i < kSize; ++i) distance += std::abs(weights[i] - wanted[i]) / kSize;
  return distance;
}

TEST(TopK, FeedbackFindsTheOptimumAndWithoutItTrainingStaysAway) {
  run_ranks(three_ranks(), [](World& world) {
    const double with = distance_after_training(world, TopK::Feedback::kOn);
    const double without = distance_after_training(world, TopK::Feedback::kOff);
    EXPECT_LT(with, 0.3);
    EXPECT_GT(without, 3 * with);
  });
}

}  // namespace
}  // namespace hv::examples
