#include "launcher/port_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using testing::HasSubstr;

Plan make(const std::vector<HostSpec>& hosts, bool first_is_local) {
  auto plan = make_plan(hosts, 0, 0);
  EXPECT_TRUE(plan);
  plan->hosts.front().local = first_is_local;
  return *plan;
}
JobSpec range(int low, int high) {
  JobSpec spec;
  spec.port_low = static_cast<std::uint16_t>(low);
  spec.port_high = static_cast<std::uint16_t>(high);
  return spec;
}

TEST(PortRange, RoomForRanksMasterPortAndServer) {
  auto plan = make({{"h1", "", 0, 4, ""}, {"h2", "", 0, 4, ""}}, false);
  EXPECT_TRUE(check_port_range(range(0, 0), plan));
  EXPECT_TRUE(check_port_range(range(31000, 31004), plan));
  auto narrow = check_port_range(range(31000, 31003), plan);
  ASSERT_FALSE(narrow);
  EXPECT_EQ(narrow.error().code, base::Code::kUsage);
  EXPECT_THAT(narrow.error().text, HasSubstr("has 4 ports, but h1 needs 5"));
  EXPECT_THAT(narrow.error().text, HasSubstr("--port-range 31000-31004"));
  EXPECT_FALSE(check_port_range(range(31000, 31004),
                                make({{"h1", "", 0, 4, ""}, {"h2", "", 0, 4, ""}}, true)));
}

TEST(PortRange, OneHostHasNoListenersOfRanks) {
  auto plan = make({{"localhost", "", 0, 8, ""}}, true);
  EXPECT_TRUE(check_port_range(range(31000, 31001), plan));
  auto narrow = check_port_range(range(31000, 31000), plan);
  ASSERT_FALSE(narrow);
  EXPECT_THAT(narrow.error().text, HasSubstr("has 1 port, but localhost needs 2"));
}

TEST(PortRange, OneMoreWhereLinksAreRelayed) {
  auto plan = make({{"h1", "", 0, 1, ""}, {"h2", "", 0, 1, ""}, {"h3", "", 0, 1, ""}}, false);
  auto spec = range(31000, 31001);
  EXPECT_TRUE(check_port_range(spec, plan));
  spec.fanout = 2;
  EXPECT_FALSE(check_port_range(spec, plan));
  spec.port_high = 31002;
  EXPECT_TRUE(check_port_range(spec, plan));
}

}  // namespace
}  // namespace hv::launcher
