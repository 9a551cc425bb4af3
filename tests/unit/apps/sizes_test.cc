#include "apps/hvbench/sizes.h"

#include <gtest/gtest.h>

namespace hv::bench {
namespace {

TEST(Sizes, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_size("8"), 8);
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("64K"), 65536);
  EXPECT_EQ(parse_size("64k"), 65536);
  EXPECT_EQ(parse_size("64KiB"), 65536);
  EXPECT_EQ(parse_size("64KB"), 65536);
  EXPECT_EQ(parse_size("3M"), 3 << 20);
  EXPECT_EQ(parse_size("2G"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_size("1T"), std::int64_t{1} << 40);
}

TEST(Sizes, RefusesTheRest) {
  for (const char* text : {"", "K", "-1", "1.5M", "8 K", "8KK", "8X", "8Ki", "8iB", "0x10", "8K ",
                           "99999999999999999999", "9999999999999G"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Sizes, Climbs) {
  EXPECT_EQ(ladder(8, 64, 2), (std::vector<std::int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(ladder(8, 63, 2), (std::vector<std::int64_t>{8, 16, 32}));
  EXPECT_EQ(ladder(5, 5, 4), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(ladder(0, 4, 2), (std::vector<std::int64_t>{0, 1, 2, 4}));
  EXPECT_EQ(ladder(0, 0, 2), (std::vector<std::int64_t>{0}));
  const std::int64_t top = std::int64_t{1} << 62;
  EXPECT_EQ(ladder(top, top, 8), (std::vector<std::int64_t>{top}));
}

}  // namespace
}  // namespace hv::bench
