#include "hv/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hv/error.h"

namespace hv {
namespace {

using testing::ElementsAre;

TEST(CompressedTensor, KeepsWhatSixteenBitsCanHold) {
  std::vector<float> values{1, -0.5f, 65504, 0};
  CompressedTensor half({2, 2}, Compression::kFloat16);
  half.pack(view(values.data(), {2, 2}));
  EXPECT_EQ(half.view().dtype, DType::kFloat16);
  EXPECT_EQ(half.view().shape, (Shape{2, 2}));
  EXPECT_EQ(half.view().bytes(), 8u);
  std::vector<float> back(4);
  half.unpack(view(back.data(), {4}));
  EXPECT_EQ(back, values);
}

TEST(CompressedTensor, RoundsToNearestAndBeyondTheRangeOfFloat16ToInfinity) {
  std::vector<double> values{1 + 1.0 / 4096, 1e6, 3e38};
  std::vector<double> back(3);
  CompressedTensor half({3}, Compression::kFloat16), brain({3}, Compression::kBFloat16);
  half.pack(view(values));
  half.unpack(view(back));
  EXPECT_THAT(back, ElementsAre(1, INFINITY, INFINITY));
  brain.pack(view(values));
  brain.unpack(view(back));
  EXPECT_EQ(brain.view().dtype, DType::kBFloat16);
  EXPECT_EQ(back[0], 1);
  EXPECT_NEAR(back[1], 1e6, 1e6 / 256);
  EXPECT_NEAR(back[2], 3e38, 3e38 / 256);
}

TEST(CompressedTensor, DividesBeforeItRounds) {
  std::vector<float> values{199936, 3};
  CompressedTensor half({2}, Compression::kFloat16);
  half.pack(view(values), 4);
  half.unpack(view(values));
  EXPECT_THAT(values, ElementsAre(49984, 0.75f));
}

TEST(CompressedTensor, RefusesWhatItCannotHold) {
  EXPECT_THROW(CompressedTensor({1}, Compression::kNone), Error);
  CompressedTensor half({2}, Compression::kFloat16);
  std::vector<float> three(3);
  std::vector<std::int32_t> whole(2);
  EXPECT_THROW(half.pack(view(three)), Error);
  EXPECT_THROW(half.unpack(view(whole)), Error);
  TensorView device = view(three.data(), {2});
  device.device = 0;
  EXPECT_THROW(half.pack(device), Error);
}

}  // namespace
}  // namespace hv
