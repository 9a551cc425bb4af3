#include "launcher/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using testing::HasSubstr;

HostSpec host(const std::string& name, int slots) {
  HostSpec spec;
  spec.name = name;
  spec.slots = slots;
  spec.source = "-H";
  return spec;
}

TEST(Plan, UnevenHosts) {
  auto plan = make_plan({host("a", 3), host("b", 1), host("c", 2)}, 6, 4);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->epoch, 4U);
  EXPECT_EQ(plan->size, 6);
  struct Row {
    int rank, local_rank, local_size, cross_rank, cross_size;
  };
  std::vector<Row> expected = {{0, 0, 3, 0, 3}, {1, 1, 3, 0, 2}, {2, 2, 3, 0, 1},
                               {3, 0, 1, 1, 3}, {4, 0, 2, 2, 3}, {5, 1, 2, 1, 2}};
  std::size_t i = 0;
  for (const auto& on : plan->hosts) {
    for (const auto& rank : on.ranks) {
      const auto& row = expected.at(i++);
      EXPECT_EQ(rank.rank, row.rank);
      EXPECT_EQ(rank.local_rank, row.local_rank);
      EXPECT_EQ(rank.local_size, row.local_size);
      EXPECT_EQ(rank.cross_rank, row.cross_rank) << rank.rank;
      EXPECT_EQ(rank.cross_size, row.cross_size) << rank.rank;
    }
  }
  EXPECT_EQ(i, expected.size());
}

TEST(Plan, HostsWithoutRanksAreLeftOut) {
  auto plan = make_plan({host("a", 2), host("b", 2), host("c", 2)}, 3, 0);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->hosts.size(), 2U);
  EXPECT_EQ(plan->hosts[1].ranks.size(), 1U);
  EXPECT_EQ(plan->hosts[1].ranks[0].local_size, 1);
}

TEST(Plan, AllSlotsWithoutNumber) {
  auto plan = make_plan({host("a", 2), host("b", 0)}, 0, 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->size, 3);
}

TEST(Plan, TooFewSlotsShowsTheTableAndTheFix) {
  auto plan = make_plan({host("a", 2), host("longer", 0)}, 5, 0);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, base::Code::kUsage);
  EXPECT_THAT(plan.error().text, HasSubstr("5 ranks were asked for, but the hosts have 3"));
  EXPECT_THAT(plan.error().text, HasSubstr("  a           2  -H\n"));
  EXPECT_THAT(plan.error().text, HasSubstr("  longer      1  -H (no count given)\n"));
  EXPECT_THAT(plan.error().text, HasSubstr("-H a:2,longer:3"));
  EXPECT_THAT(plan.error().text, HasSubstr("-np 3"));
}

TEST(Plan, TooFewSlotsOnManyHostsFitsOnAScreen) {
  std::vector<HostSpec> hosts;
  for (int i = 0; i < 300; ++i) hosts.push_back(host("h" + std::to_string(i), 1));
  auto plan = make_plan(hosts, 301, 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().text, HasSubstr("284 hosts more"));
  EXPECT_LT(std::ranges::count(plan.error().text, '\n'), 24);
}

TEST(Plan, OversubscribedHostsTakeMoreInProportion) {
  std::vector<HostSpec> hosts = {host("a", 2), host("b", 1)};
  auto plan = make_plan(hosts, 7, 0, true);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->hosts[0].ranks.size(), 5u);
  EXPECT_EQ(plan->hosts[1].ranks.size(), 2u);
  EXPECT_EQ(make_plan(hosts, 2, 0, true)->hosts.size(), 1u) << "as ever where the slots suffice";
}

}  // namespace
}  // namespace hv::launcher
