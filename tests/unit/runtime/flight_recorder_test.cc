#include "runtime/flight_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/stall_watch.h"

namespace hv::runtime {
namespace {

using rendezvous::OpRecord;
using rendezvous::OpState;
using namespace std::chrono_literals;

Op named(const std::string& name) {
  Op op;
  op.name = name;
  op.input = {nullptr, DType::kFloat64, {3, 5}, -1};
  return op;
}

TEST(FlightRecorder, CountsTheTimeInWhichItWaitsForOthersOnce) {
  auto recorder = FlightRecorder::open({});
  recorder.enter(77);
  const auto first = recorder.submitted(named("a"), 1000);
  const auto second = recorder.submitted(named("b"), 2000);
  recorder.agreed(second, 1, 5000);
  EXPECT_EQ(recorder.header().waited_ns, 3000);
  recorder.agreed(first, 2, 6000);  // both waited until 5000
  EXPECT_EQ(recorder.header().waited_ns, 4000);
  const auto third = recorder.submitted(named("c"), 9000);
  recorder.agreed(third, 3, 9500);
  EXPECT_EQ(recorder.header().waited_ns, 4500);
}

TEST(FlightRecorder, FollowsAnOperation) {
  auto recorder = FlightRecorder::open({});
  recorder.enter(77);
  EXPECT_EQ(recorder.header().pid, 77);
  EXPECT_EQ(recorder.oldest(), nullptr);
  const auto place = recorder.submitted(named("layer.weight"), 1000);
  const OpRecord& record = recorder.records()[place];
  EXPECT_EQ(record.state, OpState::kSubmitted);
  EXPECT_EQ(record.name.view(), "layer.weight");
  EXPECT_EQ(record.kind.view(), "allreduce");
  EXPECT_EQ(record.dtype.view(), "float64");
  EXPECT_EQ(record.bytes, 120U);
  EXPECT_EQ(recorder.oldest(), &record);
  recorder.agreed(place, 42, 2000);
  EXPECT_EQ(record.state, OpState::kRunning);
  EXPECT_EQ(record.batch, 42U);
  recorder.finished(place, true, 3000, nullptr);
  EXPECT_EQ(record.state, OpState::kDone);
  EXPECT_EQ(record.submitted_ns, 1000);
  EXPECT_EQ(record.agreed_ns, 2000);
  EXPECT_EQ(record.done_ns, 3000);
  EXPECT_EQ(recorder.oldest(), nullptr);
  EXPECT_EQ(recorder.header().submitted, 1U);
  EXPECT_EQ(recorder.header().finished, 1U);
}

TEST(FlightRecorder, KeepsWhatIsPendingHoweverMuchComesAfter) {
  auto recorder = FlightRecorder::open({});
  recorder.enter(1);
  const auto old = recorder.submitted(named("old"), 1);
  for (std::size_t i = 0; i < 3 * rendezvous::kRecords; ++i) {
    recorder.finished(recorder.submitted(named("new"), 2), true, 3, nullptr);
  }
  ASSERT_NE(recorder.oldest(), nullptr);
  EXPECT_EQ(recorder.oldest()->name.view(), "old");
  EXPECT_EQ(recorder.oldest(), &recorder.records()[old]);
}

TEST(FlightRecorder, MorePendingThanItHasRoomForIsCountedOnly) {
  auto recorder = FlightRecorder::open({});
  for (std::size_t i = 0; i < rendezvous::kRecords; ++i) {
    EXPECT_NE(recorder.submitted(named("n"), 1), FlightRecorder::kNowhere);
  }
  const auto none = recorder.submitted(named("one too many"), 1);
  EXPECT_EQ(none, FlightRecorder::kNowhere);
  recorder.agreed(none, 1, 2);
  recorder.finished(none, true, 3, nullptr);
  EXPECT_EQ(recorder.header().submitted, rendezvous::kRecords + 1);
  EXPECT_EQ(recorder.header().finished, 1U);
}

TEST(FlightRecorder, LongNamesKeepTheirEnd) {
  auto recorder = FlightRecorder::open({});
  const std::string name = std::string(300, 'x') + ".weight";
  const auto place = recorder.submitted(named(name), 1);
  const auto kept = recorder.records()[place].name.view();
  EXPECT_EQ(kept.size(), 127U);
  EXPECT_TRUE(kept.ends_with("xxx.weight"));
}

TEST(FlightRecorder, WithoutTheTimelineNothingIsTraced) {
  auto recorder = FlightRecorder::open({});
  recorder.finished(recorder.submitted(named("a"), 1), true, 2, nullptr);
  recorder.decided(3);
  EXPECT_EQ(recorder.header().traced, 0U);
}

TEST(FlightRecorder, ProcessSets) {
  auto recorder = FlightRecorder::open({});
  recorder.set_members(3, "0-2");
  recorder.set_members(4, "5");
  recorder.set_members(3, "");
  recorder.set_members(9, "1,7");
  const auto& sets = recorder.header().sets;
  EXPECT_EQ(sets[0].id, 9U);
  EXPECT_EQ(sets[0].ranks.view(), "1,7");
  EXPECT_EQ(sets[1].id, 4U);
  EXPECT_EQ(sets[2].id, 0U);
}

TEST(FlightRecorder, WhatAnEarlierWorldLeftPendingHasEnded) {
  auto recorder = FlightRecorder::open({});
  recorder.submitted(named("a"), 1);
  recorder.leave();
  recorder.enter(2);
  EXPECT_EQ(recorder.oldest(), nullptr);
}

TEST(FlightRecorder, AWrongDescriptorIsNotTouched) {
  for (const char* descriptor : {"", "x", "0", "1", "999999", "99999999999"}) {
    auto recorder = FlightRecorder::open(std::string(descriptor));
    EXPECT_NE(recorder.submitted(named("a"), 1), FlightRecorder::kNowhere) << descriptor;
  }
}

// ---- stalls --------------------------------------------------------------------------------

using Verdict = StallWatch::Verdict;
const StallWatch::Time kStart{1000s};

TEST(StallWatch, NothingPendingNothingToWakeFor) {
  StallWatch watch(true, 10s, 0s);
  EXPECT_EQ(watch.next(false, kStart), StallWatch::Time::max());
  EXPECT_EQ(watch.next(true, kStart), kStart + 10s);
  EXPECT_FALSE(watch.is_due(false, kStart + 20s));
  EXPECT_EQ(watch.next(false, kStart + 20s), StallWatch::Time::max());
}

TEST(StallWatch, OffIsOff) {
  StallWatch watch(false, 10s, 20s);
  EXPECT_EQ(watch.next(true, kStart), StallWatch::Time::max());
}

TEST(StallWatch, WarnsWhenTheOldestHasWaitedThatLongAndAgainLater) {
  StallWatch watch(true, 10s, 0s);
  watch.next(true, kStart);
  EXPECT_FALSE(watch.is_due(true, kStart + 9s));
  EXPECT_TRUE(watch.is_due(true, kStart + 10s));
  // The one that was pending then has ended; another is younger.
  EXPECT_EQ(watch.look(kStart + 4s, kStart + 10s), Verdict::kFine);
  EXPECT_EQ(watch.next(true, kStart + 10s), kStart + 14s);
  EXPECT_EQ(watch.look(kStart + 4s, kStart + 14s), Verdict::kWarn);
  EXPECT_EQ(watch.next(true, kStart + 14s), kStart + 24s);
  EXPECT_EQ(watch.look(kStart + 4s, kStart + 24s), Verdict::kWarn);
  EXPECT_EQ(watch.look(std::nullopt, kStart + 34s), Verdict::kFine);
}

TEST(StallWatch, EndsTheJobAndThenItself) {
  StallWatch watch(true, 10s, 25s);
  EXPECT_EQ(watch.look(kStart, kStart + 10s), Verdict::kWarn);
  EXPECT_EQ(watch.look(kStart, kStart + 20s), Verdict::kWarn);
  EXPECT_EQ(watch.next(true, kStart + 20s), kStart + 25s);
  EXPECT_EQ(watch.look(kStart, kStart + 25s), Verdict::kShutDown);
  EXPECT_EQ(watch.next(true, kStart + 25s), kStart + 30s);
  EXPECT_EQ(watch.look(kStart, kStart + 30s), Verdict::kGiveUp);
}

}  // namespace
}  // namespace hv::runtime
