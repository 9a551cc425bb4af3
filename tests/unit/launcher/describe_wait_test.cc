#include "launcher/describe_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/recorder.h"

namespace hv::launcher {
namespace {

using rendezvous::OpState;
using rendezvous::OpView;
using rendezvous::Presence;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kSecond = 1'000'000;

OpView op(const std::string& name, OpState state, std::uint64_t number, std::uint64_t batch,
          double seconds_ago) {
  OpView view;
  view.number = number;
  view.state = static_cast<std::uint8_t>(state);
  view.kind = "allreduce";
  view.name = name;
  view.dtype = "float32";
  view.bytes = 4096;
  view.batch = batch;
  view.submitted_us_ago = static_cast<std::int64_t>(seconds_ago * kSecond);
  return view;
}
OpView waits(const std::string& name, double seconds_ago) {
  return op(name, OpState::kSubmitted, 2, 0, seconds_ago);
}
OpView done(const std::string& name, double seconds_ago, std::uint64_t batch = 1) {
  return op(name, OpState::kDone, 1, batch, seconds_ago);
}

std::vector<RankPicture> job(std::vector<std::vector<OpView>> ops) {
  std::vector<RankPicture> ranks;
  for (auto& mine : ops) {
    RankPicture picture{"h" + std::to_string(ranks.size() / 2), true, {}};
    picture.view.rank = static_cast<int>(ranks.size());
    picture.view.pid = 100 + picture.view.rank;
    picture.view.process_state = 'S';
    picture.view.presence = static_cast<std::uint8_t>(Presence::kInWorld);
    picture.view.ops = std::move(mine);
    ranks.push_back(std::move(picture));
  }
  return ranks;
}

TEST(DescribeWait, NothingToTell) {
  EXPECT_EQ(describe_wait(job({{}, {}})), "");
  EXPECT_EQ(describe_wait(job({{done("g", 1)}, {done("g", 1)}})), "");
}

TEST(DescribeWait, NamesTheTensorTheMissingRanksAndWhatTheySubmittedLast) {
  const auto text = describe_wait(job({{waits("g17", 5.04), done("g16", 5.2)},
                                       {waits("g17", 5), done("g16", 5.2)},
                                       {waits("g17", 5), done("g16", 5.2)},
                                       {done("g16", 5.2)}}));
  EXPECT_EQ(text,
            "allreduce 'g17' (float32, 4.0 KiB) has waited 5.0 s: ranks 0-2 have submitted it, "
            "rank 3 has not\n"
            "  rank 3 on h1 (pid 103) sleeps or waits elsewhere; last submitted allreduce 'g16' "
            "5.2 s ago");
}

TEST(DescribeWait, TellsFrozenFromEndedFromElsewhere) {
  struct Case {
    char state;
    const char* text;
  };
  for (auto [state, text] :
       {Case{'T', "is stopped (by SIGSTOP"}, Case{'t', "is stopped"}, Case{'\0', "has ended"},
        Case{'Z', "has ended"}, Case{'D', "is blocked in the kernel"},
        Case{'R', "computes elsewhere"}, Case{'S', "sleeps or waits elsewhere"}}) {
    auto ranks = job({{waits("g", 3)}, {}});
    ranks[1].view.process_state = static_cast<std::uint8_t>(state);
    EXPECT_THAT(describe_wait(ranks), HasSubstr(std::string("rank 1 on h0 (pid 101) ") + text))
        << state;
  }
  auto ranks = job({{waits("g", 3)}, {}});
  ranks[1].view.presence = static_cast<std::uint8_t>(Presence::kNotYet);
  EXPECT_THAT(describe_wait(ranks), HasSubstr("is not in hv::init yet; it has submitted nothing"));
  ranks[1].view.presence = static_cast<std::uint8_t>(Presence::kLeft);
  EXPECT_THAT(describe_wait(ranks), HasSubstr("has shut down"));
  ranks[1].known = false;
  EXPECT_THAT(describe_wait(ranks), HasSubstr("no word from its host"));
}

TEST(DescribeWait, RanksThatWaitForEachOther) {
  const auto text = describe_wait(job({{waits("a", 4)}, {waits("b", 3)}}));
  EXPECT_THAT(text, StartsWith("allreduce 'a' (float32, 4.0 KiB) has waited 4.0 s: rank 0 has"));
  EXPECT_THAT(text, HasSubstr("rank 1 on h0 (pid 101) waits itself for allreduce 'b'"));
  EXPECT_THAT(text, HasSubstr("waiting, too: 'b'"));
}

TEST(DescribeWait, AHintAtCodeOfOneRank) {
  const auto text = describe_wait(job({{waits("extra", 4)}, {}, {}}));
  EXPECT_THAT(text, HasSubstr("only rank 0 has submitted allreduce 'extra'"));
  EXPECT_THAT(text, HasSubstr("checkpoint"));
}

TEST(DescribeWait, WhoHasFinishedTheSameBatchIsNotBehind) {
  // Rank 1 was faster; rank 2 never came.
  const auto text = describe_wait(job({{op("g", OpState::kRunning, 2, 9, 1), done("g", 2, 8)},
                                       {done("g", 1, 9), done("g", 2, 8)},
                                       {done("g", 2, 8)}}));
  EXPECT_THAT(text, HasSubstr("rank 0 has submitted it, rank 2 has not"));
}

TEST(DescribeWait, AnOperationThatRunsEverywhereAndDoesNotEnd) {
  auto ranks =
      job({{op("big", OpState::kRunning, 2, 9, 7)}, {op("big", OpState::kRunning, 2, 9, 7)}});
  EXPECT_THAT(describe_wait(ranks),
              AllOf(HasSubstr("has run for 7.0 s on ranks 0-1"), HasSubstr("all of these")));
  ranks[1].view.process_state = 'T';
  EXPECT_THAT(describe_wait(ranks), AllOf(HasSubstr("rank 1 on h0 (pid 101) is stopped"),
                                          Not(HasSubstr("all of these"))));
}

TEST(DescribeWait, ARankThatHasEndedWaitsForNothing) {
  // It was ahead of the others when it was killed.
  auto ranks = job({{op("g10", OpState::kRunning, 2, 10, 1)},
                    {waits("g11", 2), done("g10", 1, 10)},
                    {op("g10", OpState::kRunning, 2, 10, 1)}});
  ranks[1].view.process_state = 0;
  EXPECT_THAT(describe_wait(ranks),
              AllOf(StartsWith("allreduce 'g10' (float32, 4.0 KiB) has run for 1.0 s on ranks 0,2"),
                    HasSubstr("rank 1 on h0 (pid 101) has ended; last submitted allreduce 'g11' "
                              "2.0 s ago, not finished"),
                    Not(HasSubstr("only"))));
  // It was in the middle.
  ranks = job({{op("g", OpState::kRunning, 2, 10, 1)}, {op("g", OpState::kRunning, 2, 10, 1)}});
  ranks[1].view.process_state = 0;
  EXPECT_THAT(describe_wait(ranks), AllOf(HasSubstr("has run for 1.0 s on rank 0 and"),
                                          HasSubstr("rank 1 on h0 (pid 101) has ended")));
}

TEST(DescribeWait, WhatHasJustFailedCountsAsWaiting) {
  auto failed = op("g", OpState::kFailed, 2, 0, 1);
  EXPECT_THAT(describe_wait(job({{failed}, {done("f", 1)}})), HasSubstr("rank 1 has not"));
  // A mismatch ended it on all of them.
  failed.batch = 5;
  EXPECT_EQ(describe_wait(job({{failed}, {failed}})), "");
}

TEST(DescribeWait, OnlyMembersOfAProcessSetAreMissing) {
  auto in_set = waits("g", 2);
  in_set.set = 3;
  auto ranks = job({{in_set}, {}, {}, {}});
  ranks[0].view.sets = {{"3", "0,2-3"}};
  EXPECT_THAT(describe_wait(ranks), HasSubstr("ranks 2-3 have not"));
}

TEST(DescribeWait, ListsAreSortedAndCapped) {
  std::vector<std::vector<OpView>> ops(40);
  for (int i = 0; i < 20; ++i) {
    ops[0].push_back(op("t" + std::to_string(i), OpState::kSubmitted, i + 1, 0, 30 - i));
  }
  const auto text = describe_wait(job(ops));
  EXPECT_THAT(text, StartsWith("allreduce 't0'"));
  EXPECT_THAT(text, HasSubstr("ranks 1-39 have not"));
  EXPECT_THAT(text, HasSubstr("and 31 more ranks"));
  EXPECT_THAT(text, HasSubstr("'t1', 't2', 't3', 't4', 't5', 't6' … and 13 more"));
}

TEST(DescribeRanks, TellsHowFarAllAre) {
  auto ranks = job({{done("g", 1)}, {waits("h", 2), done("g", 3)}});
  ranks[0].view.finished = 17;
  ranks[1].view.finished = 16;
  const auto text = describe_ranks(ranks);
  EXPECT_THAT(text, StartsWith("2 ranks, operations finished: 16 to 17\nallreduce 'h'"));
  EXPECT_THAT(text, HasSubstr("\n  rank 0 on h0 (pid 100) sleeps or waits elsewhere; last "
                              "submitted allreduce 'g' 1.0 s ago\n  rank 1 on h0 (pid 101) waits "
                              "itself for allreduce 'h'"));
}

}  // namespace
}  // namespace hv::launcher
