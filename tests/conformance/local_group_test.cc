// What every LocalGroup must do, over memfds and in one process.
#include "runtime/transport/local_group.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/endpoint.h"
#include "runtime/backend/host_backend.h"
#include "runtime/transport/inproc_local_group.h"
#include "runtime/transport/memfd_local_group.h"
#include "tests/support/rank_threads.h"

namespace hv::runtime {
namespace {

using test::soon;
using Groups = std::vector<std::shared_ptr<LocalGroup>>;

LocalGroupOptions options_of(int rank, int size, DataListener& listener) {
  LocalGroupOptions options;
  options.local_rank = rank;
  for (int r = 0; r < size; ++r) options.names.push_back("rank " + std::to_string(r) + " on h1");
  options.socket_name = listener.segment_name;
  if (rank == 0) options.listener = std::move(listener.segment_socket);
  return options;
}

// Each rank's join waits for the others, so each runs in a thread; the groups then outlive them.
Groups make_memfd(int size) {
  const auto secret = rendezvous::Secret::random();
  auto listener = open_data_listener({});
  std::vector<std::future<base::Result<std::shared_ptr<LocalGroup>>>> joining;
  for (int rank = 0; rank < size; ++rank) {
    joining.push_back(std::async(
        std::launch::async,
        [options = std::make_shared<LocalGroupOptions>(options_of(rank, size, *listener)),
         &secret] { return make_memfd_local_group(std::move(*options), secret, soon()); }));
  }
  Groups groups;
  for (auto& each : joining) {
    auto group = each.get();
    EXPECT_TRUE(group) << group.error().text;
    groups.push_back(std::move(*group));
  }
  return groups;
}

struct Kind {
  std::string name;
  std::function<Groups(int)> make;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class LocalGroupTest : public testing::TestWithParam<Kind> {
 protected:
  Groups make(int size) const { return GetParam().make(size); }
};

TEST_P(LocalGroupTest, SegmentsAreSharedAlignedAndZeroed) {
  auto groups = make(3);
  for (std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    const std::string key = "k" + std::to_string(bytes);
    std::vector<Segment> segments;
    for (auto& group : groups) {
      auto segment = group->segment(key, bytes, soon());
      ASSERT_TRUE(segment) << segment.error().text;
      segments.push_back(*segment);
    }
    for (int part = 0; part < 3; ++part) {
      const auto memory = segments[0].part(part);
      EXPECT_GE(memory.size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
      EXPECT_EQ(memory[0], std::byte{0});
      EXPECT_EQ(memory[bytes - 1], std::byte{0});
      segments[static_cast<std::size_t>(part)].part(part)[bytes - 1] = std::byte(part + 1);
    }
    for (const auto& segment : segments) {
      for (int part = 0; part < 3; ++part)
        EXPECT_EQ(segment.part(part)[bytes - 1], std::byte(part + 1));
    }
  }
}

TEST_P(LocalGroupTest, SegmentsOutliveTheirGroup) {
  auto groups = make(2);
  const Segment a = *groups[0]->segment("k", 100, soon()),
                b = *groups[1]->segment("k", 100, soon());
  groups.clear();
  a.part(1)[7] = std::byte{42};
  EXPECT_EQ(b.part(1)[7], std::byte{42});
}

TEST_P(LocalGroupTest, SizesMustAgree) {
  auto groups = make(2);
  ASSERT_TRUE(groups[0]->segment("k", 4096, soon()));
  const auto other = groups[1]->segment("k", 8192, soon());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, base::Code::kMismatch);
  EXPECT_NE(other.error().text.find("8192"), std::string::npos) << other.error().text;
  EXPECT_NE(other.error().text.find("4096"), std::string::npos) << other.error().text;
}

TEST_P(LocalGroupTest, ARingWakesASleeperAndCostsNothingOtherwise) {
  auto groups = make(2);
  pollfd bell{groups[1]->doorbell(), POLLIN, 0};
  groups[0]->ring(1);
  EXPECT_EQ(::poll(&bell, 1, 0), 0) << "nobody slept";
  groups[1]->about_to_sleep();
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    groups[0]->ring(1);
  });
  EXPECT_EQ(::poll(&bell, 1, 10000), 1);
  groups[1]->woke_up();
  EXPECT_EQ(::poll(&bell, 1, 0), 0) << "woke_up empties the doorbell";
  ringer.join();
}

TEST_P(LocalGroupTest, NoWakeUpIsLostBetweenLookingAndSleeping) {
  auto groups = make(2);
  std::atomic<int> ball{0};
  auto play = [&](int me) {
    for (int turn = me; turn < 2000; turn += 2) {
      while (ball.load(std::memory_order_seq_cst) != turn) {
        groups[static_cast<std::size_t>(me)]->about_to_sleep();
        if (ball.load(std::memory_order_seq_cst) != turn) {
          pollfd bell{groups[static_cast<std::size_t>(me)]->doorbell(), POLLIN, 0};
          if (::poll(&bell, 1, 10000) != 1) return false;
        }
        groups[static_cast<std::size_t>(me)]->woke_up();
      }
      ball.store(turn + 1, std::memory_order_seq_cst);
      groups[static_cast<std::size_t>(me)]->ring(1 - me);
    }
    return true;
  };
  auto other = std::async(std::launch::async, play, 1);
  EXPECT_TRUE(play(0));
  EXPECT_TRUE(other.get());
}

TEST_P(LocalGroupTest, AbortKeepsTheFirstReasonAndRingsItsOwnBell) {
  auto groups = make(2);
  EXPECT_EQ(groups[0]->failure(), nullptr);
  groups[0]->about_to_sleep();
  groups[0]->abort({base::Code::kPeerLost, "first", {}, 0});
  groups[0]->abort({base::Code::kTimeout, "second", {}, 0});
  ASSERT_NE(groups[0]->failure(), nullptr);
  EXPECT_EQ(groups[0]->failure()->text, "first");
  EXPECT_EQ(groups[1]->failure(), nullptr) << "abort is this rank's";
  pollfd bell{groups[0]->doorbell(), POLLIN, 0};
  EXPECT_EQ(::poll(&bell, 1, 1000), 1);
}

TEST_P(LocalGroupTest, LeavesNoDescriptorBehind) {
  auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = count();
  {
    auto groups = make(3);
    for (auto& group : groups) EXPECT_TRUE(group->segment("k", 100, soon()));
  }
  EXPECT_EQ(count(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LocalGroupTest,
                         testing::Values(Kind{"Memfd", make_memfd},
                                         Kind{"Inproc", make_inproc_local_groups}),
                         [](const auto& k) { return k.param.name; });

// What only processes can suffer.

TEST(MemfdLocalGroup, NamesWhoeverDoesNotCome) {
  auto listener = open_data_listener({});
  const auto begun = base::Clock::now();
  const auto group =
      make_memfd_local_group(options_of(0, 2, *listener), rendezvous::Secret::random(),
                             base::Deadline::after(std::chrono::milliseconds(200)));
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, base::Code::kTimeout) << group.error().text;
  EXPECT_LT(base::Clock::now() - begun, std::chrono::seconds(10));
}

TEST(MemfdLocalGroup, StrangersAreRefusedAndDoNoHarm) {
  const auto secret = rendezvous::Secret::random();
  auto listener = open_data_listener({});
  auto first =
      std::async(std::launch::async,
                 [&, options = std::make_shared<LocalGroupOptions>(options_of(0, 2, *listener))] {
                   return make_memfd_local_group(std::move(*options), secret, soon());
                 });
  const auto stranger =
      make_memfd_local_group(options_of(1, 2, *listener), rendezvous::Secret::random(), soon());
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, base::Code::kAuth) << stranger.error().text;
  // One that says nothing, one that talks nonsense.
  std::vector<base::UniqueFd> sockets;
  for (int i = 0; i < 2; ++i) {
    base::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto address = *rendezvous::to_unix_address(listener->segment_name);
    ASSERT_EQ(::connect(socket.get(), address.get(), address.length), 0);
    if (i == 1) ::send(socket.get(), "nonsense", 8, MSG_NOSIGNAL);
    sockets.push_back(std::move(socket));
  }
  auto second = make_memfd_local_group(options_of(1, 2, *listener), secret, soon());
  EXPECT_TRUE(second);
  EXPECT_TRUE(first.get());
}

}  // namespace
}  // namespace hv::runtime
