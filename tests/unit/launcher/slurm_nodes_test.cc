#include "launcher/slurm_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> expand(std::string_view text) {
  auto names = expand_node_list(text, "LIST");
  EXPECT_TRUE(names.has_value()) << text << ": " << names.error().text;
  return names.value_or(std::vector<std::string>{"none"});
}

std::string why(std::string_view text) {
  auto names = expand_node_list(text, "LIST");
  EXPECT_FALSE(names.has_value()) << text;
  if (names) return {};
  EXPECT_EQ(names.error().code, base::Code::kUsage);
  return names.error().text;
}

TEST(SlurmNodes, ExpandsAsScontrolDoes) {
  EXPECT_THAT(expand("n[001-003,007]"), ElementsAre("n001", "n002", "n003", "n007"));
  EXPECT_THAT(expand("b04-[09-10]"), ElementsAre("b04-09", "b04-10"));
  EXPECT_THAT(expand("a,b[001,003],c"), ElementsAre("a", "b001", "b003", "c"));
  EXPECT_THAT(expand("c427-032,c429-002"), ElementsAre("c427-032", "c429-002"));
  EXPECT_THAT(expand("foo003,foo0[10-12],foo-m11-16"),
              ElementsAre("foo003", "foo010", "foo011", "foo012", "foo-m11-16"));
  EXPECT_THAT(expand("x[9-11]"), ElementsAre("x9", "x10", "x11"));
  EXPECT_THAT(expand("[1-2]"), ElementsAre("1", "2"));
  EXPECT_THAT(expand("a[3,1,1]"), ElementsAre("a3", "a1", "a1"));
}

TEST(SlurmNodes, PadsToTheWidthOfTheFirstNumber) {
  EXPECT_THAT(expand("n[08-10]"), ElementsAre("n08", "n09", "n10"));
  EXPECT_THAT(expand("n[8-010]"), ElementsAre("n8", "n9", "n10"));
  EXPECT_THAT(expand("n[099-100]"), ElementsAre("n099", "n100"));
  EXPECT_THAT(expand("n[1,01,001]"), ElementsAre("n1", "n01", "n001"));
}

TEST(SlurmNodes, TurnsSeveralBracketsInSlurmsOrder) {
  EXPECT_THAT(expand("r[1-2]n[01-02]"), ElementsAre("r1n01", "r1n02", "r2n01", "r2n02"));
  EXPECT_THAT(expand("a[1-2][3-4]"), ElementsAre("a13", "a14", "a23", "a24"));
  // The first bracket turns faster than the second: so does scontrol.
  EXPECT_THAT(expand("r[1-2]n[1-2]s[3-4]"), ElementsAre("r1n1s3", "r1n1s4", "r2n1s3", "r2n1s4",
                                                        "r1n2s3", "r1n2s4", "r2n2s3", "r2n2s4"));
}

TEST(SlurmNodes, TakesASuffix) {
  EXPECT_THAT(expand("n[1-2]-ib,m"), ElementsAre("n1-ib", "n2-ib", "m"));
}

TEST(SlurmNodes, SkipsEmptyNames) {
  EXPECT_THAT(expand(""), IsEmpty());
  EXPECT_THAT(expand(",a,,b c\t"), ElementsAre("a", "b", "c"));
}

TEST(SlurmNodes, SaysWhereAListIsWrong) {
  EXPECT_THAT(why("n[1-"), HasSubstr("LIST: '[' without ']' at character 2\n  n[1-\n   ^"));
  EXPECT_THAT(why("a,n]1"), HasSubstr("']' without '[' at character 4"));
  EXPECT_THAT(why("n[]"), HasSubstr("a number is missing at character 3"));
  EXPECT_THAT(why("n[1-]"), HasSubstr("a number is missing at character 5"));
  EXPECT_THAT(why("n[1,,2]"), HasSubstr("a number is missing at character 5"));
  EXPECT_THAT(why("n[3-1]"), HasSubstr("'3-1' runs backwards at character 3"));
  EXPECT_THAT(why("n[1,a-b]"), HasSubstr("'a' is not a number at character 5"));
  EXPECT_THAT(why("n[1-2-3]"), HasSubstr("'2-3' is not a number at character 5"));
  EXPECT_THAT(why("n[[1-2]]"), HasSubstr("'[' inside of brackets at character 3"));
  EXPECT_THAT(why("n[0-65536]"), HasSubstr("more than 65536 nodes at character 3"));
  EXPECT_THAT(why("n[99999999999999999999]"), HasSubstr("is not a number"));
  EXPECT_THAT(why("a[0-2000][0-2000]"), HasSubstr("more than 1048576 nodes"));
}

TEST(SlurmNodes, ShowsOnlyTheSurroundingsOfAnErrorInALongList) {
  std::string list;
  for (int i = 0; i < 1000; ++i) list += "node,";
  auto text = why(list + "n[2-1]");
  EXPECT_LT(text.size(), 250u);
  EXPECT_THAT(text, HasSubstr("n[2-1]"));
}

TEST(SlurmCounts, Expand) {
  EXPECT_THAT(*expand_counts("2(x3),1", "C"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*expand_counts("4", "C"), ElementsAre(4));
  EXPECT_THAT(*expand_counts("1,16(x2)", "C"), ElementsAre(1, 16, 16));
}

TEST(SlurmCounts, SaysWhereAListIsWrong) {
  for (const char* text : {"", "0", "2(x0)", "2(x)", "2x3", "2(x3", "2,,1", "-1", "a", "2(3)",
                           "2(x3)1", "1(x99999999)"}) {
    EXPECT_FALSE(expand_counts(text, "C").has_value()) << text;
  }
  EXPECT_THAT(expand_counts("2(x3),x", "C").error().text,
              HasSubstr("C: 'x' is not a count at character 7"));
}

}  // namespace
}  // namespace hv::launcher
