#include "runtime/collective/select.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hv::runtime {
namespace {

Sizes one_host(int ranks) { return {ranks, 1, ranks, ranks}; }
Sizes many_hosts(int hosts, int each) { return {hosts * each, hosts, each, each}; }

TEST(Select, EveryShapeAndSizeHasAPlanThatWorks) {
  const Tuning tuning;
  for (int hosts : {1, 2, 3, 4, 5, 16, 17, 64, 1000}) {
    for (int each : {1, 2, 7, 64}) {
      for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes *= 8) {
        const Sizes sizes = hosts == 1 ? one_host(each) : many_hosts(hosts, each);
        const Plan plan = choose_plan(OpKind::kAllreduce, bytes, false, sizes, tuning);
        EXPECT_GT(plan.chunk_bytes, 0u);
        EXPECT_EQ(plan.chunk_bytes % 64, 0u);
        EXPECT_LE(plan.chunk_bytes, tuning.slot_bytes);
        EXPECT_GE(plan.owners, 1);
        EXPECT_LE(plan.owners, each);
        EXPECT_NE(plan.cross, CrossAlgorithm::kRing);
        if (hosts > 1) {
          EXPECT_NE(plan.local, LocalAlgorithm::kFlat);
        }
        if (plan.local == LocalAlgorithm::kFlat) {
          EXPECT_LE(bytes, plan.chunk_bytes);
        }
        if (plan.cross == CrossAlgorithm::kHalving) {
          EXPECT_EQ(hosts & (hosts - 1), 0);
        }
      }
    }
  }
}

TEST(Select, SmallMessagesTakeFewStepsAndLargeOnesFewBytes) {
  const Tuning tuning;
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 8, false, one_host(2), tuning).local,
            LocalAlgorithm::kFlat);
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 64 << 20, false, one_host(2), tuning).local,
            LocalAlgorithm::kSlices);
  const Plan small = choose_plan(OpKind::kAllreduce, 8, false, many_hosts(8, 4), tuning);
  EXPECT_EQ(small.cross, CrossAlgorithm::kDoubling);
  EXPECT_EQ(small.owners, 1);
  const Plan large = choose_plan(OpKind::kAllreduce, 64 << 20, false, many_hosts(8, 4), tuning);
  EXPECT_EQ(large.cross, CrossAlgorithm::kDirect);
  EXPECT_EQ(large.owners, 4);
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 64 << 20, false, many_hosts(64, 4), tuning).cross,
            CrossAlgorithm::kHalving);
}

TEST(Select, OnlyLargeTensorsOfOneHostAreReducedInPlace) {
  const Tuning tuning;
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 1 << 20, true, one_host(2), tuning).local,
            LocalAlgorithm::kInPlace);
  EXPECT_NE(choose_plan(OpKind::kAllreduce, 64, true, one_host(2), tuning).local,
            LocalAlgorithm::kInPlace);
  EXPECT_NE(choose_plan(OpKind::kAllreduce, 1 << 20, true, many_hosts(2, 2), tuning).local,
            LocalAlgorithm::kInPlace);
}

TEST(Select, NamesOverrideTheTableWhereTheyCan) {
  Tuning tuning;
  tuning = *with_algorithms(tuning, "flat,tree");
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 1 << 20, false, one_host(4), tuning).local,
            LocalAlgorithm::kFlat);
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 1 << 20, false, many_hosts(5, 2), tuning).cross,
            CrossAlgorithm::kTree);
  tuning = *with_algorithms(tuning, "halving");  // not for five hosts
  EXPECT_NE(choose_plan(OpKind::kAllreduce, 1 << 20, false, many_hosts(5, 2), tuning).cross,
            CrossAlgorithm::kHalving);
  tuning = *with_algorithms(tuning, "ring");  // adds in another order
  EXPECT_NE(choose_plan(OpKind::kAllreduce, 1 << 20, false, many_hosts(5, 2), tuning).cross,
            CrossAlgorithm::kRing);
  tuning.determinism = Determinism::kOff;
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 1 << 20, false, many_hosts(5, 2), tuning).cross,
            CrossAlgorithm::kRing);
}

TEST(Select, RefusesUnknownNames) {
  const auto unknown = with_algorithms({}, "slices,fastest");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, base::Code::kUsage);
  EXPECT_NE(unknown.error().text.find("\"fastest\""), std::string::npos);
  EXPECT_NE(unknown.error().text.find("doubling"), std::string::npos);
}

TEST(Select, OneOwnerMovesEverythingBetweenHosts) {
  Tuning tuning;
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 64 << 20, false, many_hosts(2, 4), tuning).owners, 4);
  tuning.one_owner = true;
  EXPECT_EQ(choose_plan(OpKind::kAllreduce, 64 << 20, false, many_hosts(2, 4), tuning).owners, 1);
}

}  // namespace
}  // namespace hv::runtime
