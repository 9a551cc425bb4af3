#include "runtime/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;

std::vector<std::vector<std::size_t>> run(const std::vector<std::pair<Signature, std::size_t>>& ops,
                                          std::size_t limit) {
  std::vector<FuseItem> items;
  for (const auto& [signature, bytes] : ops) items.push_back({&signature, bytes});
  return fuse(items, limit);
}

Signature of(DType dtype, OpKind kind = OpKind::kAllreduce) {
  Signature s;
  s.dtype = dtype;
  s.kind = kind;
  return s;
}
const Signature kF32 = of(DType::kFloat32);
const Signature kF64 = of(DType::kFloat64);

TEST(Fusion, EqualKindsRunTogether) {
  EXPECT_THAT(run({{kF32, 4}, {kF32, 4}, {kF32, 4}}, 1024), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(Fusion, ZeroLeavesEveryOperationAlone) {
  EXPECT_THAT(run({{kF32, 4}, {kF32, 0}}, 0), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(Fusion, LooksAheadOverWhatDoesNotFit) {
  EXPECT_THAT(run({{kF32, 64}, {kF32, 512}, {kF32, 64}, {kF64, 8}, {kF32, 64}}, 192),
              ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1), ElementsAre(3)));
}

TEST(Fusion, SlicesStartAtCacheLines) {
  EXPECT_THAT(run({{kF32, 4}, {kF32, 4}, {kF32, 4}}, 128),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(Fusion, EveryParameterKeepsApart) {
  for (auto change : std::vector<void (*)(Signature&)>{
           [](Signature& s) { s.dtype = DType::kFloat16; },
           [](Signature& s) { s.reduce = ReduceOp::kMin; },
           [](Signature& s) { s.prescale = 2; },
           [](Signature& s) { s.postscale = 2; },
           [](Signature& s) { s.root = 1; },
           [](Signature& s) { s.device = 0; },
           [](Signature& s) { s.kind = OpKind::kBroadcast; },
       }) {
    Signature other = kF32;
    change(other);
    EXPECT_THAT(run({{kF32, 4}, {other, 4}, {kF32, 4}}, 1024),
                ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  }
}

TEST(Fusion, ShapesNeedNotBeEqual) {
  Signature other = kF32;
  other.shape = {5, 5};
  EXPECT_THAT(run({{kF32, 4}, {other, 100}}, 1024), ElementsAre(ElementsAre(0, 1)));
}

TEST(Fusion, BarriersRunAlone) {
  const Signature barrier = of(DType::kFloat32, OpKind::kBarrier);
  EXPECT_THAT(run({{barrier, 0}, {barrier, 0}}, 1024), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

}  // namespace
}  // namespace hv::runtime
