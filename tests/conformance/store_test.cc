// One suite over every Store: the local store, the client store over TCP, and the client store
// through an agent's relay.
#include "rendezvous/store.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/client.h"
#include "tests/support/relay_agent.h"
#include "tests/support/test_server.h"

namespace hv::tests {
namespace {

using namespace rendezvous;
using namespace std::chrono_literals;
using base::Code;
using base::Deadline;

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

// Where the ranks of a job of `size` get their stores.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual std::unique_ptr<Store> open(int rank) = 0;
};

class LocalMeeting : public Meeting {
 public:
  explicit LocalMeeting(int size) : hub_(make_local_hub(size)) {}
  std::unique_ptr<Store> open(int rank) override { return open_local_store(hub_, rank); }

 private:
  std::shared_ptr<LocalHub> hub_;
};

class TcpMeeting : public Meeting {
 public:
  explicit TcpMeeting(int size) : size_(size) { server_.begin_epoch(1, size); }
  std::unique_ptr<Store> open(int rank) override {
    auto store = open_client_store(server_.contract(rank, size_, 1), Deadline::after(20s));
    EXPECT_TRUE(store) << store.error().text;
    return store ? std::move(*store) : nullptr;
  }

 protected:
  int size_;
  TestServer server_;
};

class RelayMeeting : public TcpMeeting {
 public:
  explicit RelayMeeting(int size) : TcpMeeting(size) {
    auto ranks = server_.contract(0, size, 1).secret;
    for (std::uint32_t host = 0; host < 2; ++host) {
      agents_.push_back(
          std::make_unique<RelayAgent>(server_.endpoints(), server_.secret, *ranks, host));
    }
  }
  std::unique_ptr<Store> open(int rank) override {
    auto contract = server_.contract(rank, size_, 1);
    contract.servers.clear();
    contract.agent_socket = agents_[static_cast<std::size_t>(rank) % agents_.size()]->socket_name();
    auto store = open_client_store(contract, Deadline::after(20s));
    EXPECT_TRUE(store) << store.error().text;
    return store ? std::move(*store) : nullptr;
  }

 private:
  std::vector<std::unique_ptr<RelayAgent>> agents_;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Meeting>(int size)> make;
};

class StoreTest : public testing::TestWithParam<Kind> {
 protected:
  void start(int size) {
    meeting_ = GetParam().make(size);
    for (int rank = 0; rank < size; ++rank) stores_.push_back(meeting_->open(rank));
  }
  void TearDown() override {
    for (auto& store : stores_) {
      if (store) store->leave();
    }
    stores_.clear();
    meeting_.reset();
    EXPECT_EQ(open_descriptors(), descriptors_);
  }

  std::size_t descriptors_ = open_descriptors();
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Store>> stores_;
};

PeerInfo peer(int rank) {
  PeerInfo info;
  info.rank = rank;
  info.host = "h" + std::to_string(rank);
  info.endpoints = {{"10.0.0." + std::to_string(rank + 1), 4000}};
  return info;
}

TEST_P(StoreTest, AKeyIsSeenByAll) {
  start(3);
  ASSERT_TRUE(stores_[0]->set("color", base::as_bytes("blue")));
  for (auto& store : stores_) {
    auto value = store->get("color", Deadline::after(10s));
    ASSERT_TRUE(value) << value.error().text;
    EXPECT_EQ(base::as_text(*value), "blue");
  }
  ASSERT_TRUE(stores_[1]->set("color", {}));
  auto value = stores_[2]->get("color", Deadline::after(10s));
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->empty());
}

TEST_P(StoreTest, AValueOfAMegabyteArrivesWhole) {
  start(2);
  base::Bytes big(1 << 20);
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(stores_[0]->set("big", big));
  auto value = stores_[1]->get("big", Deadline::after(10s));
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, big);
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  start(2);
  auto waiting =
      std::async(std::launch::async, [&] { return stores_[1]->get("late", Deadline::after(20s)); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  ASSERT_TRUE(stores_[0]->set("late", base::as_bytes("x")));
  auto value = waiting.get();
  ASSERT_TRUE(value) << value.error().text;
  EXPECT_EQ(base::as_text(*value), "x");
}

TEST_P(StoreTest, GetEndsAtItsDeadlineAndNamesTheKey) {
  start(1);
  auto begin = base::Clock::now();
  auto value = stores_[0]->get("nowhere", Deadline::after(200ms));
  auto took = base::Clock::now() - begin;
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kTimeout);
  EXPECT_NE(value.error().text.find("nowhere"), std::string::npos) << value.error().text;
  EXPECT_GE(took, 190ms);
  EXPECT_LT(took, 5s);
  auto at_once = stores_[0]->get("nowhere", Deadline::after(0ms));
  ASSERT_FALSE(at_once);
  EXPECT_EQ(at_once.error().code, Code::kTimeout);
}

TEST_P(StoreTest, AddIsAtomic) {
  start(4);
  std::vector<std::thread> threads;
  for (auto& store : stores_) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->add("counter", 1));
    });
  }
  for (auto& thread : threads) thread.join();
  auto sum = stores_[0]->add("counter", -1);
  ASSERT_TRUE(sum);
  EXPECT_EQ(*sum, 199);
}

TEST_P(StoreTest, AddToTextIsAnError) {
  start(1);
  ASSERT_TRUE(stores_[0]->set("text", base::as_bytes("abc")));
  auto sum = stores_[0]->add("text", 1);
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code, Code::kInvalidArgument);
}

TEST_P(StoreTest, JoinGivesEveryRankTheSameTable) {
  constexpr int kSize = 5;
  start(kSize);
  for (std::uint32_t generation = 1; generation <= 3; ++generation) {
    std::vector<std::future<base::Result<PeerTable>>> joins;
    for (int rank = 0; rank < kSize; ++rank) {
      joins.push_back(std::async(std::launch::async, [&, rank] {
        return stores_[static_cast<std::size_t>(rank)]->join(peer(rank), Deadline::after(20s));
      }));
    }
    for (auto& join : joins) {
      auto table = join.get();
      ASSERT_TRUE(table) << table.error().text;
      EXPECT_EQ(table->generation, generation);
      ASSERT_EQ(table->peers.size(), static_cast<std::size_t>(kSize));
      for (int rank = 0; rank < kSize; ++rank) {
        const auto& entry = table->peers[static_cast<std::size_t>(rank)];
        EXPECT_EQ(entry.rank, rank);
        EXPECT_EQ(entry.host, peer(rank).host);
        EXPECT_EQ(entry.endpoints, peer(rank).endpoints);
      }
    }
  }
}

TEST_P(StoreTest, AJoinThatTimesOutNamesTheMissingRanks) {
  start(4);
  std::vector<std::future<base::Result<PeerTable>>> joins;
  for (std::size_t rank : {0u, 2u}) {
    joins.push_back(std::async(std::launch::async, [&, rank] {
      return stores_[rank]->join(peer(static_cast<int>(rank)), Deadline::after(500ms));
    }));
  }
  stores_[3]->leave();
  for (auto& join : joins) {
    auto table = join.get();
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().code, Code::kTimeout);
    EXPECT_NE(table.error().text.find("1 (connected, but not joined), 3 (left)"), std::string::npos)
        << table.error().text;
  }
}

TEST_P(StoreTest, AFaultEndsWhatEverybodyWaitsFor) {
  start(3);
  std::vector<std::future<base::Error>> ends;
  for (auto& store : stores_) {
    ends.push_back(std::async(std::launch::async, [&] {
      auto value = store->get("never", Deadline::after(30s));
      return value ? base::Error{} : value.error();
    }));
  }
  auto table = std::async(std::launch::async,
                          [&] { return stores_[0]->join(peer(0), Deadline::after(30s)); });
  stores_[1]->report_fault({Code::kMismatch, "shapes differ"});
  for (auto& end : ends) {
    auto error = end.get();
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_EQ(base::describe(error), "rank 1: shapes differ");
  }
  ASSERT_FALSE(table.get());
  stores_[2]->report_fault({Code::kSystem, "second, too late"});
  auto later = stores_[0]->set("key", {});
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().text, "shapes differ");
}

TEST_P(StoreTest, WatchersRunOnce) {
  start(2);
  std::vector<std::promise<Notice>> notices(3);
  std::atomic<int> calls = 0;
  auto watcher = [&](std::size_t i) {
    return [&, i](const Notice& notice) {
      ++calls;
      notices[i].set_value(notice);  // a second call throws
    };
  };
  stores_[0]->watch(watcher(0));
  stores_[1]->watch(watcher(1));
  stores_[0]->report_fault({Code::kTimeout, "stalled"});
  for (std::size_t i : {0u, 1u}) {
    auto notice = notices[i].get_future();
    ASSERT_EQ(notice.wait_for(10s), std::future_status::ready);
    auto value = notice.get();
    EXPECT_EQ(value.failed_rank, 0);
    EXPECT_EQ(value.cause.text, "stalled");
  }
  stores_[1]->watch(watcher(2));
  auto late = notices[2].get_future();
  ASSERT_EQ(late.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(calls, 3);
}

TEST_P(StoreTest, AGoodbyeIsNoFailure) {
  start(2);
  std::atomic<int> calls = 0;
  for (auto& store : stores_) store->watch([&](const Notice&) { ++calls; });
  stores_[0]->leave();
  stores_[0]->leave();
  auto value = stores_[0]->get("key", Deadline::after(10s));
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kShutdown);
  stores_[0].reset();
  ASSERT_TRUE(stores_[1]->set("key", {}));
  EXPECT_EQ(calls, 0);
}

TEST_P(StoreTest, ARankCanComeAgain) {
  start(2);
  for (std::uint32_t generation = 1; generation <= 3; ++generation) {
    auto other = std::async(std::launch::async,
                            [&] { return stores_[1]->join(peer(1), Deadline::after(20s)); });
    auto table = stores_[0]->join(peer(0), Deadline::after(20s));
    ASSERT_TRUE(table) << table.error().text;
    EXPECT_EQ(table->generation, generation);
    ASSERT_TRUE(other.get());
    stores_[0]->leave();
    stores_[0].reset();
    stores_[0] = meeting_->open(0);
    ASSERT_TRUE(stores_[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StoreTest,
    testing::Values(Kind{"local", [](int size) { return std::make_unique<LocalMeeting>(size); }},
                    Kind{"tcp", [](int size) { return std::make_unique<TcpMeeting>(size); }},
                    Kind{"relay", [](int size) { return std::make_unique<RelayMeeting>(size); }}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace hv::tests
