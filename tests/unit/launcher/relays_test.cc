#include "launcher/relays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace hv::launcher {
namespace {

using testing::Each;

TEST(RelayTree, IsATreeOfBoundedWidthWithRelaysFirst) {
  for (std::uint32_t fanout : {1U, 2U, 3U, 32U}) {
    for (std::size_t hosts :
         {1U, 2U, 3U, 31U, 32U, 33U, 63U, 64U, 65U, 128U, 1056U, 1057U, 5000U}) {
      const auto tree = make_relay_tree(hosts, fanout);
      std::vector<std::uint32_t> children(hosts);
      for (std::size_t host = 0; host < hosts; ++host) {
        EXPECT_EQ(tree[host].has_value(), host >= fanout) << host << " of " << hosts;
        if (!tree[host]) continue;
        EXPECT_LT(*tree[host], host);
        EXPECT_LE(++children[*tree[host]], fanout);
      }
    }
  }
}

TEST(RelayTree, SpreadsALevelEvenly) {
  const auto tree = make_relay_tree(256, 32);
  for (std::uint32_t relay = 0; relay < 32; ++relay) {
    EXPECT_EQ(std::ranges::count(tree, relay), 7) << relay;
  }
}

TEST(RelayTree, WithoutAFanoutNobodyIsRelayed) {
  EXPECT_THAT(make_relay_tree(100, 0), Each(std::optional<std::uint32_t>()));
}

std::string text(const Relays::Steps& steps) {
  std::string all;
  for (const auto& step : steps) {
    const auto kind = step.kind == Relays::Step::Kind::kSettle ? "settle "
                      : step.kind == Relays::Step::Kind::kOpen ? "open "
                                                               : "move ";
    all += (all.empty() ? "" : ", ") + std::string(kind) + std::to_string(step.host);
    if (step.kind == Relays::Step::Kind::kMove) {
      all += " to " + std::to_string(step.relay) + " at " + step.endpoints.front().address;
    }
  }
  return all;
}

// 0 relays 2 and 4, 1 relays 3 and 5, and 2 relays 6.
class RelaysTest : public testing::Test {
 protected:
  Relays relays_{7, 2};
};

TEST_F(RelaysTest, AHostWaitsUntilItsRelayListens) {
  EXPECT_EQ(text(relays_.on_hello(2, true)), "");
  EXPECT_EQ(text(relays_.on_hello(0, true)), "settle 0, open 0");
  EXPECT_EQ(text(relays_.on_opened(0, {{"10.0.0.1", 4000}})), "move 2 to 0 at 10.0.0.1");
  EXPECT_TRUE(relays_.is_moving(2));
  EXPECT_EQ(relays_.relay_of(2), std::nullopt);
  EXPECT_EQ(text(relays_.on_moved(2)), "settle 2, open 2");
  EXPECT_EQ(relays_.relay_of(2), 0U);
  EXPECT_FALSE(relays_.is_moving(2));
}

TEST_F(RelaysTest, AHostThatComesLaterMovesAtOnce) {
  relays_.on_hello(0, true);
  relays_.on_opened(0, {{"10.0.0.1", 4000}});
  EXPECT_EQ(text(relays_.on_hello(2, true)), "move 2 to 0 at 10.0.0.1");
}

TEST_F(RelaysTest, WhoCannotReachItsRelayStays) {
  relays_.on_hello(1, true);
  relays_.on_opened(1, {{"10.0.0.2", 4000}});
  relays_.on_hello(3, true);
  EXPECT_EQ(text(relays_.on_stays(3)), "settle 3");
  EXPECT_EQ(relays_.relay_of(3), std::nullopt);
  EXPECT_EQ(text(relays_.on_stays(3)), "");  // said twice
}

TEST_F(RelaysTest, WhoHasNoTcpStays) { EXPECT_EQ(text(relays_.on_hello(3, false)), "settle 3"); }

TEST_F(RelaysTest, ARelayThatCannotListenOrIsGoneKeepsNobodyWaiting) {
  relays_.on_hello(0, true);
  relays_.on_hello(2, true);
  relays_.on_hello(3, true);
  EXPECT_EQ(text(relays_.on_opened(0, {})), "settle 2, open 2");
  EXPECT_EQ(text(relays_.on_gone(1)), "settle 3");
  EXPECT_EQ(text(relays_.on_hello(4, true)), "settle 4");
  EXPECT_EQ(text(relays_.on_hello(6, true)), "");
  EXPECT_EQ(text(relays_.on_gone(2)), "settle 6");
}

TEST_F(RelaysTest, ItIsRememberedWhatALinkWentThrough) {
  relays_.on_hello(0, true);
  relays_.on_opened(0, {{"10.0.0.1", 4000}});
  relays_.on_hello(2, true);
  relays_.on_moved(2);
  relays_.on_gone(0);
  relays_.on_gone(2);
  EXPECT_EQ(relays_.relay_of(2), 0U);
}

}  // namespace
}  // namespace hv::launcher
