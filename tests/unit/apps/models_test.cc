#include "apps/hvbench/models.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hv::bench {
namespace {

TEST(Models, Resnet50HasItsPublishedSize) {
  const auto gradients = gradients_of("resnet50");
  EXPECT_EQ(gradients.size(), 161u);
  EXPECT_EQ(std::accumulate(gradients.begin(), gradients.end(), std::int64_t{0}), 25'557'032);
  EXPECT_EQ(gradients[0], 1000);  // the classifier's bias comes first out of a backward pass
  EXPECT_EQ(gradients[1], 2048 * 1000);
  EXPECT_EQ(gradients.back(), 3 * 64 * 7 * 7);
}

TEST(Models, Gpt2HasItsPublishedSize) {
  const auto gradients = gradients_of("gpt2");
  EXPECT_EQ(gradients.size(), 148u);
  EXPECT_EQ(std::accumulate(gradients.begin(), gradients.end(), std::int64_t{0}), 124'439'808);
}

TEST(Models, OthersAreUnknown) { EXPECT_TRUE(gradients_of("resnet51").empty()); }

}  // namespace
}  // namespace hv::bench
