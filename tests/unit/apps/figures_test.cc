#include "apps/hvbench/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace hv::bench {
namespace {

Figures make_figures(Operation op, int ranks) {
  Figures figures;
  figures.op = op;
  figures.bytes = figures.total_bytes = 4'000'000;
  figures.count = 1'000'000;
  figures.dtype = "float32";
  figures.reduce = "sum";
  figures.time_us = 1000;
  figures.p99_us = 1500;
  figures.ranks = ranks;
  return figures;
}

TEST(Figures, BandwidthsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAllreduce, 4).algbw_gbs(), 4.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAllreduce, 4).busbw_gbs(), 6.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAllreduce, 2).busbw_gbs(), 4.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAllreduce, 1).busbw_gbs(), 0.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAllgather, 4).busbw_gbs(), 3.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kReducescatter, 4).busbw_gbs(), 3.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kAlltoall, 4).busbw_gbs(), 3.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kBroadcast, 4).busbw_gbs(), 4.0);
  EXPECT_DOUBLE_EQ(make_figures(Operation::kBarrier, 4).busbw_gbs(), 0.0);
  auto nothing = make_figures(Operation::kAllreduce, 2);
  nothing.time_us = 0;
  EXPECT_DOUBLE_EQ(nothing.algbw_gbs(), 0.0);
}

TEST(Figures, PercentilesAreNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.5), 50);
  EXPECT_EQ(percentile(values, 0.99), 99);
  EXPECT_EQ(percentile(values, 1.0), 100);
  EXPECT_EQ(percentile({7}, 0.5), 7);
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2}, 0.99), 3);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(Figures, TheTableHasAColumnForEachValue) {
  std::istringstream row(table_row(make_figures(Operation::kAllreduce, 4)));
  std::vector<std::string> columns;
  for (std::string word; row >> word;) columns.push_back(word);
  EXPECT_THAT(columns, testing::ElementsAre("4000000", "1000000", "1", "float32", "sum", "1000.00",
                                            "1500.00", "4.000", "6.000", "0"));
  const std::string head = table_head();
  EXPECT_EQ(head.find('\n'), table_row(make_figures(Operation::kAllreduce, 4)).size());
}

TEST(Figures, JsonHasTheAgreedKeys) {
  auto figures = make_figures(Operation::kAllgather, 4);
  figures.hosts = 2;
  figures.wrong = 5;
  figures.algorithm = "ring";
  const std::string line = json_row(figures);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto row = nlohmann::json::parse(line);
  EXPECT_EQ(row["op"], "allgather");
  EXPECT_EQ(row["bytes"], 4'000'000);
  EXPECT_EQ(row["count"], 1'000'000);
  EXPECT_EQ(row["dtype"], "float32");
  EXPECT_EQ(row["reduce"], "sum");
  EXPECT_EQ(row["time_us"], 1000);
  EXPECT_EQ(row["p99_us"], 1500);
  EXPECT_EQ(row["algbw_gbs"], 4);
  EXPECT_EQ(row["busbw_gbs"], 3);
  EXPECT_EQ(row["wrong"], 5);
  EXPECT_EQ(row["ranks"], 4);
  EXPECT_EQ(row["hosts"], 2);
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_FALSE(row.contains("model"));
}

}  // namespace
}  // namespace hv::bench
