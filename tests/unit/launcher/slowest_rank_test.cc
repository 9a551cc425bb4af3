#include "launcher/slowest_rank.h"

#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSecond = 1'000'000;

TEST(SlowestRank, TheOneThatWaitsLeastIsWaitedFor) {
  EXPECT_EQ(
      describe_slowest(
          {{0, "h1", 10, 13 * kSecond}, {1, "h1", 10, 15 * kSecond}, {2, "h2", 10, 2 * kSecond}},
          60s, false),
      "rank 2 on h2 was waited for most: the other ranks waited 12.0 s for it, of 60.0 s; to "
      "look at its host: hvrun --probe");
}

TEST(SlowestRank, LittleIsToldOnlyToWhoWantsToKnow) {
  std::vector<RankWait> ranks = {{0, "h1", 10, 3 * kSecond}, {1, "h2", 10, kSecond}};
  EXPECT_FALSE(describe_slowest(ranks, 4s, false));
  EXPECT_TRUE(describe_slowest(ranks, 4s, true));
  ranks[0].waited_us = 15 * kSecond;
  EXPECT_FALSE(describe_slowest(ranks, 100s, false));  // a seventh
  EXPECT_TRUE(describe_slowest(ranks, 61s, false));
  EXPECT_FALSE(describe_slowest(ranks, 40s, false));  // short
  ranks[0].waited_us = kSecond + 1000;
  EXPECT_FALSE(describe_slowest(ranks, 4s, true));
}

TEST(SlowestRank, RanksWithoutOperationsWaitForNobody) {
  EXPECT_FALSE(describe_slowest({}, 60s, true));
  EXPECT_FALSE(describe_slowest({{0, "h1", 10, 50 * kSecond}, {1, "h2", 0, 0}}, 60s, true));
}

TEST(SlowestRank, WhileTheJobRunsOnlyWhatIsNewCounts) {
  SlowestWatch watch;
  EXPECT_FALSE(watch.look({{0, "h1", 0, 0}, {1, "h2", 0, 0}}, 60s));
  EXPECT_EQ(watch.look({{0, "h1", 10, 30 * kSecond}, {1, "h2", 10, kSecond}}, 60s),
            "rank 1 on h2 is waited for most: the other ranks have waited 29.0 s for it in the "
            "last 60.0 s; to look at its host: hvrun --probe");
  EXPECT_FALSE(watch.look({{0, "h1", 20, 31 * kSecond}, {1, "h2", 20, 2 * kSecond}}, 60s));
  auto other = watch.look({{0, "h1", 30, 31 * kSecond}, {1, "h2", 30, 17 * kSecond}}, 60s);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->starts_with("rank 0 on h1 is waited for most")) << *other;
  // Nothing has been done since: whoever hangs is the stall check's.
  EXPECT_FALSE(watch.look({{0, "h1", 30, 31 * kSecond}, {1, "h2", 30, 17 * kSecond}}, 60s));
}

}  // namespace
}  // namespace hv::launcher
