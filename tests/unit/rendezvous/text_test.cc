#include "rendezvous/base/text.h"

#include <gtest/gtest.h>

namespace hv::base {
namespace {

TEST(Text, SplitKeepsEmptyParts) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,b", ','), (Parts{"a", "b"}));
  EXPECT_EQ(split(",a,,", ','), (Parts{"", "a", "", ""}));
  EXPECT_EQ(split("", ','), (Parts{""}));
}

TEST(Text, TrimTakesSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Text, ParseIntTakesDigitsOnly) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("0042"), 42);
  EXPECT_EQ(parse_int("9223372036854775807"), 9223372036854775807);
  for (const char* bad : {"", " 1", "1 ", "+1", "-1", "1.0", "0x1", "1e3", "9223372036854775808"}) {
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  }
}

TEST(Text, RangesAreSortedAndJoined) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({5}), "5");
  EXPECT_EQ(ranges({7, 0, 2, 1, 3, 3}), "0-3,7");
  EXPECT_EQ(ranges({1, 3, 5}), "1,3,5");
  EXPECT_EQ(ranges({0, 1}), "0-1");
}

TEST(Text, ClosestFindsTypingErrorsOnly) {
  std::vector<std::string> flags = {"--hostfile", "--hosts", "--verbose"};
  EXPECT_EQ(closest("--hostfil", flags), "--hostfile");
  EXPECT_EQ(closest("--verbsoe", flags), "--verbose");
  EXPECT_EQ(closest("--host", flags), "--hosts");
  EXPECT_EQ(closest("--timeline", flags), std::nullopt);
  EXPECT_EQ(closest("x", {}), std::nullopt);
  EXPECT_EQ(closest("", {"a"}), "a");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(128u << 20), "128.0 MiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Text, Quoted) { EXPECT_EQ(quoted("a b"), "'a b'"); }

}  // namespace
}  // namespace hv::base
