// Fusion, as Horovod documents it: it changes no result, can be switched off, and looks ahead.
#include "runtime/fusion.h"

#include <map>
#include <random>

#include "tests/horovod/behaviour.h"

namespace hv::tests {
namespace {

using runtime::FuseItem;
using runtime::OpKind;
using runtime::Signature;
using ::testing::ElementsAre;

Signature of(OpKind kind, DType dtype = DType::kFloat32) {
  Signature s;
  s.kind = kind;
  s.dtype = dtype;
  return s;
}

TEST(Fusion, TheDefaultLimitIs128MiBAndZeroSwitchesItOff) {
  EXPECT_EQ(runtime::Knobs().fusion_bytes, std::int64_t{128} << 20);
  const Signature s = of(OpKind::kAllreduce);
  const std::vector<FuseItem> items{{&s, 4}, {&s, 4}};
  EXPECT_THAT(runtime::fuse(items, 0), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(runtime::fuse(items, 128), ElementsAre(ElementsAre(0, 1)));
}

TEST(Fusion, ReductionsAndAllgathersFuseByTypeOthersRunAlone) {
  for (OpKind kind : {OpKind::kAllreduce, OpKind::kReducescatter, OpKind::kAllgather}) {
    const Signature a = of(kind), b = of(kind, DType::kFloat64);
    const std::vector<FuseItem> items{{&a, 4}, {&b, 4}, {&a, 4}, {&b, 4}};
    EXPECT_THAT(runtime::fuse(items, 1 << 20), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)))
        << to_string(kind);
  }
  for (OpKind kind : {OpKind::kAlltoall, OpKind::kBarrier, OpKind::kJoin}) {
    const Signature s = of(kind);
    const std::vector<FuseItem> items{{&s, 4}, {&s, 4}};
    EXPECT_THAT(runtime::fuse(items, 1 << 20), ElementsAre(ElementsAre(0), ElementsAre(1)));
  }
}

TEST(Fusion, WhatDoesNotFitIsSkippedAndKeepsItsPlace) {
  const Signature s = of(OpKind::kAllreduce);
  const std::vector<FuseItem> items{{&s, 600}, {&s, 900}, {&s, 300}};
  EXPECT_THAT(runtime::fuse(items, 1024), ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
}

// Sums of numbers that are not exact: the bits would show another order of summation.
std::map<std::string, std::vector<float>> results(const InprocOptions& options, unsigned seed) {
  std::map<std::string, std::vector<float>> of_rank_0;
  run_ranks(options, [&](World& world) {
    std::map<std::string, std::vector<float>> tensors;
    std::vector<std::string> order;
    for (int i = 0; i < 40; ++i) {
      const std::string name = "t" + std::to_string(i);
      std::mt19937 random(static_cast<unsigned>(1000 * world.rank() + i));
      std::normal_distribution<float> normal;
      auto& tensor = tensors[name];
      tensor.resize(static_cast<std::size_t>(1 + i * i * 13));
      for (float& value : tensor) value = normal(random);
      order.push_back(name);
    }
    std::mt19937 random(seed + static_cast<unsigned>(world.rank()));
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Handle> handles;
    for (const auto& name : order) handles.push_back(world.allreduce(name, view(tensors[name])));
    for (auto& handle : handles) handle.wait();
    std::vector<float> all;
    for (const auto& [name, tensor] : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
    Handle gathered = world.allgather("all", view(all));
    gathered.wait();
    for (int r = 1; r < world.size(); ++r) {
      const auto* theirs = static_cast<const float*>(gathered.output().data) +
                           static_cast<std::ptrdiff_t>(all.size()) * r;
      EXPECT_EQ(std::memcmp(theirs, all.data(), all.size() * sizeof(float)), 0) << "rank " << r;
    }
    if (world.rank() == 0) of_rank_0 = tensors;
  });
  return of_rank_0;
}

TEST(Fusion, ResultsAreTheSameBitsWhateverTheLimitTheOrderAndTheAlgorithm) {
  for (auto hosts : {std::vector{4}, std::vector{2, 1, 2}}) {
    auto options = on_hosts(hosts);
    const auto wanted = results(options, 1);
    for (std::int64_t limit : {std::int64_t{0}, std::int64_t{10'000}, std::int64_t{1} << 30}) {
      options.knobs.fusion_bytes = limit;
      EXPECT_EQ(results(options, static_cast<unsigned>(limit)), wanted) << limit;
    }
    for (const char* algorithm : {"flat", "slices", "direct", "doubling", "tree"}) {
      options.tuning = *runtime::with_algorithms({}, algorithm);
      EXPECT_EQ(results(options, 7), wanted) << algorithm;
    }
  }
}

TEST(Fusion, WithPlacementResultsAreTheSameBitsWhereverTheRanksSit) {
  InprocOptions options = on_hosts({6});
  options.tuning.determinism = runtime::Determinism::kPlacement;
  const auto wanted = results(options, 1);
  for (auto hosts : {std::vector{3, 3}, std::vector{1, 5}, std::vector{2, 1, 3},
                     std::vector{1, 1, 1, 1, 1, 1}}) {
    options.hosts = hosts;
    EXPECT_EQ(results(options, 2), wanted);
  }
}

}  // namespace
}  // namespace hv::tests
