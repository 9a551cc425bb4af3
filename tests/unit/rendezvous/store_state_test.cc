#include "rendezvous/store_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "rendezvous/codec.h"

namespace hv::rendezvous {
namespace {

using namespace std::chrono_literals;
using base::Code;
using testing::HasSubstr;
using Client = StoreState::Client;
using Effects = StoreState::Effects;

constexpr std::uint32_t kEpoch = 4;

class StoreStateTest : public testing::Test {
 protected:
  // Client r + 1 is rank r.
  void start(int size) {
    state_.begin_epoch(kEpoch, size);
    for (int rank = 0; rank < size; ++rank) ASSERT_FALSE(hello(client(rank), rank).drop);
  }
  static Client client(int rank) { return static_cast<Client>(rank) + 1; }

  Effects hello(Client from, int rank, std::uint32_t epoch = kEpoch, const char* build = "b1") {
    return give(from, RankHello{epoch, rank, 1000 + static_cast<int>(from), build});
  }
  Effects join(int rank, std::uint32_t wait_ms = 1000) {
    PeerInfo self;
    self.rank = rank;
    self.host = "h" + std::to_string(rank);
    return give(client(rank), Join{77, kEpoch, wait_ms, self});
  }
  template <class Message>
  Effects give(Client from, const Message& message) {
    return state_.on_frame(from, encode(message), now_);
  }
  // The only frame that was sent, and to whom.
  template <class Message>
  static Message only(const Effects& effects, Client to) {
    EXPECT_EQ(effects.sends.size(), 1u);
    if (effects.sends.size() != 1) return {};
    EXPECT_EQ(effects.sends[0].to, to);
    EXPECT_EQ(effects.sends[0].frame.type, Message::kType);
    auto message = decode<Message>(effects.sends[0].frame.body);
    EXPECT_TRUE(message);
    return message.value_or(Message{});
  }

  StoreState::Time now_ = StoreState::Time{} + 1h;
  StoreState state_{"b1", {.key_bytes = 16, .value_bytes = 100, .total_bytes = 150}};
};

TEST_F(StoreStateTest, AWelcomeTellsEpochAndSize) {
  state_.begin_epoch(kEpoch, 3);
  auto effects = hello(1, 2);
  auto welcome = only<RankWelcome>(effects, 1);
  EXPECT_EQ(welcome.epoch, kEpoch);
  EXPECT_EQ(welcome.size, 3);
  EXPECT_EQ(welcome.refused.code, 0);
  ASSERT_EQ(effects.events.size(), 1u);
  EXPECT_EQ(std::get<RankHello>(effects.events[0]).rank, 2);
}

TEST_F(StoreStateTest, WhoDoesNotBelongIsRefusedAtBothEnds) {
  start(2);
  struct Case {
    int rank;
    std::uint32_t epoch;
    const char* build;
    Code code;
    const char* text;
  };
  for (const auto& c :
       {Case{0, kEpoch, "b1", Code::kInvalidArgument, "taken already by process 1001"},
        Case{2, kEpoch, "b1", Code::kInvalidArgument, "a job of 2 ranks"},
        Case{-1, kEpoch, "b1", Code::kInvalidArgument, "a job of 2 ranks"},
        Case{0, kEpoch - 1, "b1", Code::kAborted, "epoch 3, the job is in epoch 4"},
        Case{0, kEpoch, "b2", Code::kProtocol, "built with hvrun b2"}}) {
    auto effects = hello(99, c.rank, c.epoch, c.build);
    auto welcome = only<RankWelcome>(effects, 99);
    EXPECT_EQ(from_wire(welcome.refused).code, c.code);
    EXPECT_THAT(welcome.refused.text, HasSubstr(c.text));
    ASSERT_EQ(effects.events.size(), 1u);
    EXPECT_THAT(std::get<StoreState::Refused>(effects.events[0]).why.text, HasSubstr(c.text));
    EXPECT_TRUE(effects.drop);
    EXPECT_TRUE(state_.on_closed(99).events.empty()) << "it never was a rank";
  }
}

TEST_F(StoreStateTest, NothingIsServedBeforeAHello) {
  start(1);
  auto reply = only<StoreReply>(give(99, StoreGet{5, kEpoch, "k", 0}), 99);
  EXPECT_EQ(reply.id, 5u);
  EXPECT_EQ(from_wire(reply.error).code, Code::kShutdown);
}

TEST_F(StoreStateTest, BadFramesDropTheClient) {
  start(1);
  EXPECT_TRUE(state_.on_frame(1, {MsgType::kStoreSet, base::to_bytes("short")}, now_).drop);
  EXPECT_TRUE(state_.on_frame(1, {MsgType::kLaunchOrder, {}}, now_).drop);
  EXPECT_TRUE(state_.on_frame(1, {static_cast<MsgType>(9999), {}}, now_).drop);
  EXPECT_TRUE(hello(1, 0).drop) << "a second hello";
}

TEST_F(StoreStateTest, KeysAreSetReadAndReplaced) {
  start(2);
  EXPECT_EQ(only<StoreReply>(give(1, StoreSet{1, kEpoch, "k", base::to_bytes("v")}), 1).error.code,
            0);
  auto reply = only<StoreReply>(give(2, StoreGet{2, kEpoch, "k", 0}), 2);
  EXPECT_EQ(reply.id, 2u);
  EXPECT_EQ(base::as_text(reply.value), "v");
  give(2, StoreSet{3, kEpoch, "k", base::to_bytes("w")});
  EXPECT_EQ(base::as_text(only<StoreReply>(give(1, StoreGet{4, kEpoch, "k", 0}), 1).value), "w");
}

TEST_F(StoreStateTest, ASetAnswersAllWhoWaitForThatKey) {
  start(3);
  EXPECT_TRUE(give(1, StoreGet{1, kEpoch, "k", 500}).sends.empty());
  EXPECT_TRUE(give(2, StoreGet{2, kEpoch, "k", 900}).sends.empty());
  EXPECT_TRUE(give(2, StoreGet{3, kEpoch, "other", 900}).sends.empty());
  auto effects = give(3, StoreSet{4, kEpoch, "k", base::to_bytes("v")});
  ASSERT_EQ(effects.sends.size(), 3u);  // two getters, then the setter
  EXPECT_EQ(effects.sends[0].to, 1u);
  EXPECT_EQ(effects.sends[1].to, 2u);
  EXPECT_EQ(effects.sends[2].to, 3u);
  EXPECT_EQ(state_.next_time(), now_ + 900ms) << "the other key is still waited for";
}

TEST_F(StoreStateTest, WaitsEndInTheirOrder) {
  start(2);
  give(1, StoreGet{1, kEpoch, "slow", 2000});
  give(2, StoreGet{2, kEpoch, "fast", 1500});
  give(2, StoreGet{3, kEpoch, "for ever", kWaitForever});
  EXPECT_EQ(state_.next_time(), now_ + 1500ms);
  EXPECT_TRUE(state_.on_time(now_ + 1499ms).sends.empty());
  auto reply = only<StoreReply>(state_.on_time(now_ + 1500ms), 2);
  EXPECT_EQ(reply.id, 2u);
  EXPECT_EQ(from_wire(reply.error).code, Code::kTimeout);
  EXPECT_EQ(reply.error.text, "no rank has set key 'fast' within 1.5 s");
  EXPECT_EQ(only<StoreReply>(state_.on_time(now_ + 1h), 1).id, 1u);
  EXPECT_EQ(state_.next_time(), StoreState::Time::max());
}

TEST_F(StoreStateTest, SumsCountFromZeroAndWakeGetters) {
  start(2);
  give(2, StoreGet{1, kEpoch, "n", 500});
  auto effects = give(1, StoreAdd{2, kEpoch, "n", -3});
  ASSERT_EQ(effects.sends.size(), 2u);
  auto woken = decode<StoreReply>(effects.sends[0].frame.body);
  EXPECT_EQ(base::Reader(woken->value).get<std::int64_t>(), -3);
  auto reply = only<StoreReply>(give(2, StoreAdd{3, kEpoch, "n", 10}), 2);
  EXPECT_EQ(base::Reader(reply.value).get<std::int64_t>(), 7);
}

TEST_F(StoreStateTest, TheStoreHasBounds) {
  start(1);
  auto set = [&](const std::string& key, std::size_t bytes) {
    return from_wire(
        only<StoreReply>(give(1, StoreSet{1, kEpoch, key, base::Bytes(bytes)}), 1).error);
  };
  EXPECT_EQ(set(std::string(17, 'k'), 1).code, Code::kInvalidArgument);
  EXPECT_EQ(set("k", 101).code, Code::kInvalidArgument);
  EXPECT_TRUE(set("k", 100).text.empty());
  EXPECT_EQ(set("l", 49).code, Code::kInvalidArgument) << "1 + 100 + 1 + 49 > 150";
  EXPECT_TRUE(set("l", 48).text.empty());
  EXPECT_TRUE(set("k", 99).text.empty()) << "a new value replaces the old one's bytes";
  EXPECT_TRUE(set("l", 49).text.empty());
}

TEST_F(StoreStateTest, TheTableGoesToAllWhenTheLastRankHasJoined) {
  start(3);
  EXPECT_TRUE(join(2).sends.empty());
  EXPECT_TRUE(join(0).sends.empty());
  auto effects = join(1);
  auto table = only<PeerTable>(effects, StoreState::kEveryone);
  EXPECT_EQ(table.epoch, kEpoch);
  EXPECT_EQ(table.generation, 1u);
  ASSERT_EQ(table.peers.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(table.peers[static_cast<std::size_t>(rank)].rank, rank);
  }
  EXPECT_EQ(state_.next_time(), StoreState::Time::max()) << "nobody waits any more";
  ASSERT_EQ(effects.events.size(), 1u);
  EXPECT_EQ(std::get<StoreState::Joined>(effects.events[0]).generation, 1u);

  join(0);
  join(1);
  EXPECT_EQ(only<PeerTable>(join(2), StoreState::kEveryone).generation, 2u);
}

TEST_F(StoreStateTest, AJoinThatTimesOutNamesTheMissing) {
  state_.begin_epoch(kEpoch, 8);
  for (int rank : {0, 1, 5}) hello(client(rank), rank);
  join(1, 1500);
  give(client(5), Leave{1, kEpoch});
  auto reply = only<StoreReply>(state_.on_time(now_ + 1500ms), client(1));
  EXPECT_EQ(reply.id, 77u);
  EXPECT_EQ(from_wire(reply.error).code, Code::kTimeout);
  EXPECT_EQ(reply.error.text,
            "after 1.5 s 7 of 8 ranks are missing: 2-4,6-7 (never called init), "
            "0 (connected, but not joined), 5 (left)");
}

TEST_F(StoreStateTest, ARankThatGoesTakesItsEntryBack) {
  start(2);
  join(0);
  give(client(0), Leave{1, kEpoch});
  EXPECT_TRUE(join(1).sends.empty()) << "a table must not hold who has left";
  hello(50, 0);
  PeerInfo self;
  self.pid = 42;
  auto table = only<PeerTable>(give(50, Join{1, kEpoch, 100, self}), StoreState::kEveryone);
  EXPECT_EQ(table.peers[0].pid, 42);
}

TEST_F(StoreStateTest, ARepeatedJoinReplacesTheEntry) {
  start(2);
  join(0);
  PeerInfo self;
  self.pid = 42;
  give(client(0), Join{78, kEpoch, 100, self});
  EXPECT_EQ(only<PeerTable>(join(1), StoreState::kEveryone).peers[0].pid, 42);
}

TEST_F(StoreStateTest, ARankJoinsAsItself) {
  start(2);
  PeerInfo other;
  other.rank = 1;
  auto reply = only<StoreReply>(give(client(0), Join{1, kEpoch, 100, other}), client(0));
  EXPECT_EQ(from_wire(reply.error).code, Code::kInvalidArgument);
}

TEST_F(StoreStateTest, LeavingIsNoLoss) {
  start(2);
  auto effects = give(client(0), Leave{9, kEpoch});
  EXPECT_EQ(only<StoreReply>(effects, client(0)).id, 9u);
  ASSERT_EQ(effects.events.size(), 1u);
  EXPECT_EQ(std::get<StoreState::Left>(effects.events[0]).rank, 0);
  EXPECT_TRUE(state_.on_closed(client(0)).events.empty());

  effects = state_.on_closed(client(1));
  ASSERT_EQ(effects.events.size(), 1u);
  EXPECT_EQ(std::get<StoreState::Lost>(effects.events[0]).rank, 1);
  EXPECT_TRUE(state_.on_closed(client(1)).events.empty()) << "lost once";
}

TEST_F(StoreStateTest, WhoHasGoneIsNotAnswered) {
  start(2);
  give(client(0), StoreGet{1, kEpoch, "k", 500});
  join(1, 500);
  state_.on_closed(client(0));
  state_.forget(client(1));
  EXPECT_TRUE(state_.on_time(now_ + 1h).sends.empty());
}

TEST_F(StoreStateTest, TheFirstFaultIsTheCauseForAll) {
  start(3);
  give(client(0), StoreGet{1, kEpoch, "k", 500});
  auto effects = give(client(1), RankFault{kEpoch, to_wire({Code::kMismatch, "shapes differ"})});
  auto notice = only<Notice>(effects, StoreState::kEveryone);
  EXPECT_EQ(notice.epoch, kEpoch);
  EXPECT_EQ(notice.failed_rank, 1);
  EXPECT_EQ(notice.cause.text, "shapes differ");
  EXPECT_EQ(notice.cause.origin, "rank 1");
  ASSERT_EQ(effects.events.size(), 1u);
  EXPECT_EQ(std::get<StoreState::Fault>(effects.events[0]).rank, 1);

  effects = give(client(2), RankFault{kEpoch, to_wire({Code::kSystem, "later"})});
  EXPECT_TRUE(effects.sends.empty());
  EXPECT_EQ(effects.events.size(), 1u) << "still reported";
  EXPECT_TRUE(state_.fail_epoch(0, {Code::kPeerLost, "later still"}).sends.empty());

  for (const auto& later : {give(client(2), StoreGet{5, kEpoch, "k", 500}), join(2),
                            give(client(2), StoreSet{5, kEpoch, "k", {}}),
                            give(client(2), StoreAdd{5, kEpoch, "k", 1})}) {
    EXPECT_EQ(only<StoreReply>(later, client(2)).error.text, "shapes differ");
  }
  EXPECT_TRUE(state_.on_time(now_ + 1h).sends.empty()) << "the notice ended the waits";
}

TEST_F(StoreStateTest, WhoComesToAFailedEpochHearsTheCause) {
  state_.begin_epoch(kEpoch, 2);
  state_.fail_epoch(1, {Code::kPeerLost, "rank 1 was killed"});
  auto effects = hello(1, 0);
  ASSERT_EQ(effects.sends.size(), 2u);
  EXPECT_EQ(decode<Notice>(effects.sends[1].frame.body)->cause.text, "rank 1 was killed");
}

TEST_F(StoreStateTest, ANewEpochStartsEmpty) {
  start(2);
  give(client(0), StoreSet{1, kEpoch, "k", base::to_bytes("v")});
  join(0);
  auto notice = only<Notice>(state_.begin_epoch(kEpoch + 1, 1), StoreState::kEveryone);
  EXPECT_EQ(notice.epoch, kEpoch);
  EXPECT_EQ(from_wire(notice.cause).code, Code::kAborted);

  auto reply = only<StoreReply>(give(client(0), StoreGet{2, kEpoch, "k", 0}), client(0));
  EXPECT_EQ(from_wire(reply.error).code, Code::kAborted);
  EXPECT_TRUE(state_.on_closed(client(1)).events.empty()) << "no loss for the new epoch";

  EXPECT_FALSE(hello(50, 0, kEpoch + 1).drop);
  reply = only<StoreReply>(give(50, StoreGet{3, kEpoch + 1, "k", 0}), 50);
  EXPECT_EQ(from_wire(reply.error).code, Code::kTimeout) << "keys of the old epoch are gone";
  EXPECT_FALSE(hello(client(0), 0, kEpoch).sends.empty());
}

TEST_F(StoreStateTest, AStallIsTheOwnersToSettle) {
  start(2);
  auto effects = give(2, RankStall{kEpoch, "allreduce 'g'", 5000, 1000, false});
  EXPECT_TRUE(effects.sends.empty());
  ASSERT_EQ(effects.events.size(), 1u);
  const auto& stalled = std::get<StoreState::Stalled>(effects.events[0]);
  EXPECT_EQ(stalled.rank, 1);
  EXPECT_EQ(stalled.stall.operation, "allreduce 'g'");
  EXPECT_TRUE(give(2, RankStall{kEpoch - 1, "old", 5000, 1000, true}).events.empty());
  EXPECT_TRUE(give(99, RankStall{kEpoch, "a stranger's", 5000, 1000, true}).events.empty());
}

TEST_F(StoreStateTest, ATimelineIsAskedOfTheOwnerWhoAnswers) {
  start(2);
  auto effects = give(1, TimelineRequest{7, kEpoch, true, "/t.json", false});
  EXPECT_TRUE(effects.sends.empty());
  ASSERT_EQ(effects.events.size(), 1u);
  const auto& asked = std::get<StoreState::TimelineAsked>(effects.events[0]);
  EXPECT_EQ(asked.rank, 0);
  EXPECT_EQ(asked.request.path, "/t.json");
  auto answer = StoreState::answer(asked.client, asked.request.id, {});
  EXPECT_EQ(answer.to, 1u);
  EXPECT_EQ(decode<StoreReply>(answer.frame.body)->id, 7u);
  state_.fail_epoch(-1, {Code::kPeerLost, "gone"});
  auto reply = only<StoreReply>(give(1, TimelineRequest{8, kEpoch, false, "", false}), 1);
  EXPECT_EQ(from_wire(reply.error).code, Code::kPeerLost);
}

}  // namespace
}  // namespace hv::rendezvous
