#include "runtime/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Signature sum(Shape shape, DType dtype = DType::kFloat32) {
  Signature s;
  s.shape = std::move(shape);
  s.dtype = dtype;
  return s;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  // Four ranks: 0 and 1 speak for themselves, 2 and 3 are another host.
  Coordinator make(Coordinator::Options options = {}) {
    return Coordinator(4, {{0}, {1}, {2, 3}}, options);
  }
  static std::size_t speaker(int rank) { return rank < 2 ? rank : 2; }
  static void fresh(Coordinator& c, int rank, std::string name, Signature s,
                    std::vector<std::int64_t> rows = {}) {
    Report report;
    report.fresh.push_back({rank, std::move(name), std::move(s), std::move(rows)});
    ASSERT_TRUE(c.on_report(speaker(rank), report));
  }
  static void ready(Coordinator& c, std::size_t who, std::vector<NameId> ids) {
    Report report;
    report.ready = std::move(ids);
    ASSERT_TRUE(c.on_report(who, report));
  }
  static Decisions learn(Coordinator& c, const std::vector<std::string>& names) {
    for (int rank = 0; rank < 4; ++rank) {
      for (const auto& name : names) fresh(c, rank, name, sum({1}));
    }
    return c.decide();
  }
};

TEST_F(CoordinatorTest, DecidesWhenTheLastRankHasAnnounced) {
  auto c = make();
  for (int rank = 0; rank < 3; ++rank) fresh(c, rank, "a", sum({3}));
  EXPECT_FALSE(c.has_news());
  fresh(c, 3, "a", sum({3}));
  ASSERT_TRUE(c.has_news());
  auto decisions = c.decide();
  ASSERT_THAT(decisions.batches, SizeIs(1));
  EXPECT_EQ(decisions.batches[0].sequence, 1u);
  EXPECT_THAT(decisions.batches[0].ids, ElementsAre(1));
  EXPECT_THAT(decisions.batches[0].names, ElementsAre("a"));
  EXPECT_EQ(decisions.batches[0].error.code, 0);
  EXPECT_FALSE(c.has_news());
}

TEST_F(CoordinatorTest, KnownNamesTravelAsIdsAndAHostSpeaksForItsRanks) {
  auto c = make();
  learn(c, {"a", "b"});
  ready(c, 0, {2, 1});
  ready(c, 2, {1, 2});
  EXPECT_FALSE(c.has_news());
  ready(c, 1, {1});
  auto first = c.decide();
  ASSERT_THAT(first.batches, SizeIs(1));
  EXPECT_THAT(first.batches[0].ids, ElementsAre(1));
  EXPECT_THAT(first.batches[0].names, IsEmpty());
  ready(c, 1, {2});
  EXPECT_THAT(c.decide().batches.at(0).ids, ElementsAre(2));
}

TEST_F(CoordinatorTest, WhatIsReadyTogetherRunsTogetherInOrderOfFirstUse) {
  auto c = make();
  learn(c, {"a", "b", "c"});
  ready(c, 0, {3, 1, 2});
  ready(c, 1, {1, 2, 3});
  ready(c, 2, {2, 3, 1});
  auto decisions = c.decide();
  ASSERT_THAT(decisions.batches, SizeIs(1));
  EXPECT_THAT(decisions.batches[0].ids, ElementsAre(1, 2, 3));
}

TEST_F(CoordinatorTest, ShapeMismatchIsAnErrorBatchThatNamesBothSides) {
  auto c = make();
  fresh(c, 0, "w", sum({3, 4}));
  fresh(c, 1, "w", sum({3, 4}));
  fresh(c, 2, "w", sum({4, 4}));
  fresh(c, 3, "w", sum({3, 4}));
  auto decisions = c.decide();
  ASSERT_THAT(decisions.batches, SizeIs(1));
  const auto& batch = decisions.batches[0];
  EXPECT_EQ(batch.error.code, static_cast<std::uint8_t>(base::Code::kMismatch));
  EXPECT_THAT(batch.error.text, HasSubstr("allreduce 'w'"));
  EXPECT_THAT(batch.error.text, HasSubstr("shape [3, 4] on ranks 0-1,3, [4, 4] on rank 2"));
  EXPECT_THAT(batch.names, ElementsAre("w"));
}

TEST_F(CoordinatorTest, EveryFieldThatDiffersIsNamed) {
  struct Case {
    Signature other;
    const char* text;
  };
  Signature base = sum({2});
  std::vector<Case> cases;
  const auto add = [&](auto change, const char* text) {
    Signature s = base;
    change(s);
    cases.push_back({s, text});
  };
  add([](Signature& s) { s.dtype = DType::kFloat64; }, "type float32 on ranks 0-2, float64");
  add([](Signature& s) { s.reduce = ReduceOp::kMax; }, "reduction");
  add([](Signature& s) { s.prescale = 0.5; }, "prescale 1 on ranks 0-2, 0.5 on rank 3");
  add([](Signature& s) { s.postscale = 2; }, "postscale");
  add([](Signature& s) { s.device = 0; }, "device host memory on ranks 0-2, a GPU on rank 3");
  add([](Signature& s) { s.kind = OpKind::kBroadcast; }, "operation allreduce on ranks 0-2");
  for (const Case& one : cases) {
    auto c = make();
    for (int rank = 0; rank < 3; ++rank) fresh(c, rank, "t", base);
    fresh(c, 3, "t", one.other);
    EXPECT_THAT(c.decide().batches.at(0).error.text, HasSubstr(one.text));
  }
}

TEST_F(CoordinatorTest, RootMismatchOfABroadcast) {
  auto c = make();
  Signature s = sum({2});
  s.kind = OpKind::kBroadcast;
  for (int rank = 0; rank < 4; ++rank) {
    s.root = rank == 1;
    fresh(c, rank, "t", s);
  }
  EXPECT_THAT(c.decide().batches.at(0).error.text, HasSubstr("root 0 on ranks 0,2-3, 1 on rank 1"));
}

TEST_F(CoordinatorTest, NewParametersUnderAKnownNameAreAgreedOnAgain) {
  auto c = make();
  learn(c, {"a"});
  for (int rank = 0; rank < 4; ++rank) fresh(c, rank, "a", sum({7}));
  auto decisions = c.decide();
  ASSERT_THAT(decisions.batches, SizeIs(1));
  EXPECT_EQ(decisions.batches[0].error.code, 0);
  EXPECT_THAT(decisions.batches[0].ids, ElementsAre(1));
  EXPECT_THAT(decisions.batches[0].names, ElementsAre("a"));
}

TEST_F(CoordinatorTest, SomeByIdAndSomeWithOtherParametersIsAMismatch) {
  auto c = make();
  learn(c, {"a"});
  ready(c, 0, {1});
  fresh(c, 1, "a", sum({7}));
  ready(c, 2, {1});
  auto decisions = c.decide();
  ASSERT_THAT(decisions.batches, SizeIs(1));
  EXPECT_THAT(decisions.batches[0].error.text, HasSubstr("[1] on ranks 0,2-3, [7] on rank 1"));
  EXPECT_THAT(decisions.batches[0].ids, ElementsAre(1));
  // The world goes on with what was agreed before.
  ready(c, 0, {1});
  ready(c, 1, {1});
  ready(c, 2, {1});
  EXPECT_EQ(c.decide().batches.at(0).error.code, 0);
}

TEST_F(CoordinatorTest, AllgatherRowsOfEveryRank) {
  auto c = make();
  Signature s = sum({-1, 2});
  s.kind = OpKind::kAllgather;
  for (int rank = 0; rank < 4; ++rank) fresh(c, rank, "g", s, {rank * 10});
  EXPECT_THAT(c.decide().batches.at(0).rows, ElementsAre(0, 10, 20, 30));
  Report known;
  for (int rank = 0; rank < 4; ++rank) known.known.push_back({rank, 1, {rank}});
  ASSERT_TRUE(c.on_report(0, known));
  EXPECT_THAT(c.decide().batches.at(0).rows, ElementsAre(0, 1, 2, 3));
}

TEST_F(CoordinatorTest, ARankThatLeavesIsToldAfterWhatWasReady) {
  auto c = make();
  learn(c, {"a", "b"});
  ready(c, 0, {1});
  ready(c, 1, {1});
  ready(c, 2, {1});
  Report left;
  left.left = {1};
  ASSERT_TRUE(c.on_report(1, left));
  auto decisions = c.decide();
  EXPECT_THAT(decisions.batches, SizeIs(1));
  EXPECT_THAT(decisions.left, ElementsAre(1));
  EXPECT_FALSE(c.has_news());
}

TEST_F(CoordinatorTest, MissingRanksAreListed) {
  auto c = make();
  fresh(c, 2, "late", sum({1}));
  fresh(c, 0, "later", sum({1}));
  auto missing = c.missing();
  ASSERT_THAT(missing, SizeIs(2));
  EXPECT_EQ(missing[0].name, "late");
  EXPECT_THAT(missing[0].ranks, ElementsAre(0, 1, 3));
  EXPECT_THAT(missing[1].ranks, ElementsAre(1, 2, 3));
}

TEST_F(CoordinatorTest, OldNamesLoseTheirIdsAndCanComeBack) {
  auto c = make({std::size_t{1} << 20, 8});
  std::vector<NameId> forgotten;
  for (int i = 0; i < 100; ++i) {
    auto decisions = learn(c, {"step" + std::to_string(i)});
    forgotten.insert(forgotten.end(), decisions.forgotten.begin(), decisions.forgotten.end());
  }
  EXPECT_GE(forgotten.size(), 92u);
  EXPECT_EQ(forgotten.front(), 1u);
  ready(c, 0, {1});  // announced before the rank heard of it: void
  EXPECT_FALSE(c.has_news());
  EXPECT_THAT(learn(c, {"step0"}).batches.at(0).ids, ElementsAre(101));
}

TEST_F(CoordinatorTest, WithoutACacheEveryDecisionCarriesTheName) {
  auto c = make({std::size_t{1} << 20, 0});
  for (int i = 0; i < 3; ++i) {
    auto decisions = learn(c, {"a"});
    EXPECT_THAT(decisions.batches.at(0).ids, ElementsAre(0));
    EXPECT_THAT(decisions.batches.at(0).names, ElementsAre("a"));
  }
}

TEST_F(CoordinatorTest, RefusesNonsense) {
  auto c = make();
  Report report;
  report.fresh.push_back({9, "a", sum({1}), {}});
  EXPECT_EQ(c.on_report(0, report).error().code, base::Code::kProtocol);
  auto d = make();
  fresh(d, 0, "a", sum({1}));
  Report again;
  again.fresh.push_back({0, "a", sum({1}), {}});
  EXPECT_EQ(d.on_report(0, again).error().code, base::Code::kProtocol);
}

}  // namespace
}  // namespace hv::runtime
