// What every Transport must do, over TCP on loopback and in one process.
#include "runtime/transport/transport.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/host_backend.h"
#include "runtime/transport/inproc_transport.h"
#include "runtime/transport/tcp_transport.h"
#include "tests/support/rank_threads.h"

namespace hv::runtime {
namespace {

using test::soon;
using Transports = std::vector<std::unique_ptr<Transport>>;

Transports make_tcp(int size) {
  const auto secret = rendezvous::Secret::random();
  std::vector<rendezvous::PeerInfo> peers;
  std::vector<base::UniqueFd> listeners;
  for (int rank = 0; rank < size; ++rank) {
    DataListenerOptions options;
    options.across_hosts = true;
    options.addresses = {rank % 2 == 0 ? "127.0.0.1" : "::1"};
    auto listener = open_data_listener(options);
    if (!listener) listener = open_data_listener({true, {"127.0.0.1"}, 0, 0});  // no IPv6 here
    rendezvous::PeerInfo peer;
    peer.rank = rank;
    peer.host = "h" + std::to_string(rank);
    peer.endpoints = listener->endpoints;
    peers.push_back(peer);
    listeners.push_back(std::move(listener->tcp));
  }
  Transports transports;
  for (int rank = 0; rank < size; ++rank) {
    transports.push_back(*make_tcp_transport(std::move(listeners[static_cast<std::size_t>(rank)]),
                                             peers, rank, secret));
  }
  return transports;
}

Transports make_inproc(int size) {
  auto hub = make_inproc_hub(size);
  Transports transports;
  for (int rank = 0; rank < size; ++rank) transports.push_back(make_inproc_transport(hub, rank));
  return transports;
}

struct Kind {
  std::string name;
  std::function<Transports(int)> make;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class TransportTest : public testing::TestWithParam<Kind> {
 protected:
  Transports make(int size) const { return GetParam().make(size); }
  // Drives all ranks from this thread.
  static void settle(Transports& transports, const std::function<bool()>& done) {
    const auto deadline = soon();
    while (!done() && !deadline.passed()) {
      for (auto& transport : transports) transport->progress(base::Deadline::at({}));
    }
    EXPECT_TRUE(done());
  }
};

std::vector<std::byte> message(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + seed);
  return data;
}

TEST_P(TransportTest, CarriesMessagesOfEverySizeBothWays) {
  auto transports = make(2);
  for (std::size_t bytes : {0, 1, 31, 4096, 65536, 65537, 300000, 5000000}) {
    const auto up = message(bytes, 1), down = message(bytes, 2);
    std::vector<std::byte> got_up(bytes), got_down(bytes);
    Pending p;
    transports[1]->send(0, 7, up, p);
    transports[0]->recv(1, 7, got_up, p);
    transports[0]->send(1, 7, down, p);
    transports[1]->recv(0, 7, got_down, p);
    settle(transports, [&] { return p.done(); });
    EXPECT_EQ(p.error, nullptr);
    EXPECT_EQ(got_up, up) << bytes;
    EXPECT_EQ(got_down, down) << bytes;
  }
}

TEST_P(TransportTest, ManyMessagesBetweenAllKeepTheirOrder) {
  constexpr int kSize = 4, kMessages = 60;
  auto transports = make(kSize);
  std::vector<std::vector<std::byte>> sent, got;
  sent.reserve(kSize * kSize * kMessages), got.reserve(kSize * kSize * kMessages);
  Pending p;
  for (int i = 0; i < kMessages; ++i) {
    for (int from = 0; from < kSize; ++from) {
      for (int to = 0; to < kSize; ++to) {
        if (from == to) continue;
        const std::size_t bytes = static_cast<std::size_t>(i % 5 == 0 ? 100000 + i : 10 * i);
        sent.push_back(message(bytes, from * 50 + to * 10 + i));
        got.emplace_back(bytes);
        // Half of the receives come before their sends.
        if (i % 2 == 0) transports[static_cast<std::size_t>(to)]->recv(from, i % 3, got.back(), p);
        transports[static_cast<std::size_t>(from)]->send(to, i % 3, sent.back(), p);
        if (i % 2 != 0) transports[static_cast<std::size_t>(to)]->recv(from, i % 3, got.back(), p);
      }
    }
  }
  settle(transports, [&] { return p.done(); });
  EXPECT_EQ(p.error, nullptr);
  EXPECT_EQ(got, sent);
}

TEST_P(TransportTest, MessagesWaitUntilTheyAreReceived) {
  auto transports = make(2);
  const auto early = message(1000, 1), large = message(1 << 20, 2), last = message(10, 3);
  std::vector<std::byte> got_early(early.size()), got_large(large.size()), got_last(last.size());
  Pending sent, p;
  transports[1]->send(0, 1, early, sent);
  transports[1]->send(0, 2, large, sent);
  transports[1]->send(0, 3, last, sent);
  transports[0]->recv(1, 3, got_last, p);  // overtakes both
  settle(transports, [&] { return p.done(); });
  EXPECT_EQ(got_last, last);
  transports[0]->recv(1, 2, got_large, p);
  transports[0]->recv(1, 1, got_early, p);
  settle(transports, [&] { return p.done() && sent.done(); });
  EXPECT_EQ(got_large, large);
  EXPECT_EQ(got_early, early);
}

TEST_P(TransportTest, WaitsForWorkAndIsWokenByIt) {
  auto transports = make(2);
  std::vector<std::byte> got(8);
  Pending received, sent;
  transports[0]->recv(1, 1, got, received);
  const auto begun = base::Clock::now();
  EXPECT_FALSE(transports[0]->progress(base::Deadline::after(std::chrono::milliseconds(30))) &&
               received.done());
  EXPECT_GE(base::Clock::now() - begun, std::chrono::milliseconds(5));
  const auto data = message(8, 1);
  std::thread sender([&] {
    transports[1]->send(0, 1, data, sent);
    const auto deadline = soon();
    while (!sent.done() && !deadline.passed()) {
      transports[1]->progress(base::Deadline::after(std::chrono::milliseconds(5)));
    }
  });
  const auto deadline = soon();
  while (!received.done() && !deadline.passed()) {
    pollfd polled{transports[0]->wait_fd(), POLLIN, 0};
    EXPECT_GE(::poll(&polled, 1, deadline.poll_ms()), 0);
    transports[0]->progress(base::Deadline::at({}));
  }
  sender.join();
  EXPECT_EQ(got, data);
}

TEST_P(TransportTest, AbortFromAnotherThreadEndsTheWaitAndAllMessages) {
  auto transports = make(2);
  std::vector<std::byte> got(8), never(1 << 20);
  Pending p;
  transports[0]->recv(1, 1, got, p);
  transports[0]->send(1, 2, never, p);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    transports[0]->abort({base::Code::kPeerLost, "rank 1 is gone", {}, 0});
  });
  const auto deadline = soon();
  while (!p.done() && !deadline.passed()) transports[0]->progress(deadline);
  aborter.join();
  ASSERT_TRUE(p.done());
  ASSERT_NE(p.error, nullptr);
  EXPECT_EQ(p.error->text, "rank 1 is gone");
  Pending later;
  transports[0]->send(1, 3, got, later);
  transports[0]->progress(base::Deadline::at({}));
  ASSERT_TRUE(later.done());
  EXPECT_EQ(later.error->text, "rank 1 is gone");
}

TEST_P(TransportTest, TheEndOfAPeerFailsItsMessagesOnly) {
  auto transports = make(3);
  const auto hello = message(8, 1);
  std::vector<std::byte> got(8), lost(8), fine(8);
  Pending first;
  transports[1]->send(0, 1, hello, first);
  transports[0]->recv(1, 1, got, first);
  settle(transports, [&] { return first.done(); });
  Pending from_1, from_2;
  transports[0]->recv(1, 2, lost, from_1);
  transports[0]->recv(2, 2, fine, from_2);
  transports[1].reset();
  Transports rest;
  rest.push_back(std::move(transports[0]));
  rest.push_back(std::move(transports[2]));
  settle(rest, [&] { return from_1.done(); });
  ASSERT_NE(from_1.error, nullptr);
  EXPECT_EQ(from_1.error->code, base::Code::kPeerLost);
  EXPECT_NE(from_1.error->text.find("rank 1"), std::string::npos) << from_1.error->text;
  rest[1]->send(0, 2, hello, from_2);
  settle(rest, [&] { return from_2.done(); });
  EXPECT_EQ(from_2.error, nullptr);
  EXPECT_EQ(fine, hello);
}

TEST_P(TransportTest, AMessageOfAnotherLengthIsAMismatch) {
  auto transports = make(2);
  const auto sent = message(50, 1);
  std::vector<std::byte> got(51);
  Pending p, q;
  transports[0]->recv(1, 1, got, p);
  transports[1]->send(0, 1, sent, q);
  settle(transports, [&] { return p.done(); });
  ASSERT_NE(p.error, nullptr);
  EXPECT_EQ(p.error->code, base::Code::kMismatch);
}

TEST_P(TransportTest, LeavesNoDescriptorBehind) {
  auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = count();
  {
    auto transports = make(3);
    std::vector<std::byte> data(100), got(100);
    Pending p;
    transports[2]->send(0, 1, data, p);
    transports[0]->recv(2, 1, got, p);
    settle(transports, [&] { return p.done(); });
  }
  EXPECT_EQ(count(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransportTest,
                         testing::Values(Kind{"Tcp", make_tcp}, Kind{"Inproc", make_inproc}),
                         [](const auto& k) { return k.param.name; });

// What only TCP can suffer.

TEST(TcpTransport, StrangersAtTheListenerDoNoHarm) {
  const auto secret = rendezvous::Secret::random();
  std::vector<rendezvous::PeerInfo> peers(2);
  std::vector<base::UniqueFd> listeners;
  for (int rank = 0; rank < 2; ++rank) {
    auto listener = open_data_listener({true, {"127.0.0.1"}, 0, 0});
    peers[static_cast<std::size_t>(rank)].rank = rank;
    peers[static_cast<std::size_t>(rank)].endpoints = listener->endpoints;
    listeners.push_back(std::move(listener->tcp));
  }
  Transports transports;
  transports.push_back(*make_tcp_transport(std::move(listeners[0]), peers, 0, secret));
  // A rank of another job, one of another epoch, and one that only knows the address.
  auto stale_peers = peers;
  stale_peers[0].pid = 1;
  Transports others;
  others.push_back(*make_tcp_transport({}, peers, 1, rendezvous::Secret::random()));
  others.push_back(*make_tcp_transport({}, stale_peers, 1, secret));
  std::vector<std::byte> data(10, std::byte{1}), got(10);
  Pending refused;
  for (auto& other : others) other->send(0, 1, data, refused);
  const auto a_while = base::Deadline::after(std::chrono::milliseconds(300));
  while (!a_while.passed()) {
    for (auto& other : others) other->progress(base::Deadline::at({}));
    transports[0]->progress(base::Deadline::at({}));
  }
  EXPECT_EQ(refused.left, 2u);
  Pending p;
  transports.push_back(*make_tcp_transport(std::move(listeners[1]), peers, 1, secret));
  transports[1]->send(0, 1, data, p);
  transports[0]->recv(1, 1, got, p);
  const auto deadline = soon();
  while (!p.done() && !deadline.passed()) {
    for (auto& transport : transports) transport->progress(base::Deadline::at({}));
    for (auto& other : others) other->progress(base::Deadline::at({}));
  }
  EXPECT_TRUE(p.done());
  EXPECT_EQ(p.error, nullptr);
  EXPECT_EQ(got, data);
  EXPECT_EQ(refused.left, 2u);
  for (auto& other : others) {
    other->abort({base::Code::kShutdown, "end of test", {}, 0});
    other->progress(base::Deadline::at({}));
  }
}

TEST(TcpTransport, TriesEveryAddressOfAPeer) {
  const auto secret = rendezvous::Secret::random();
  std::vector<rendezvous::PeerInfo> peers(2);
  auto listener = open_data_listener({true, {"127.0.0.1"}, 0, 0});
  auto deaf = open_data_listener({true, {"127.0.0.1"}, 0, 0});  // connects, never answers
  peers[1].rank = 1;
  peers[0].endpoints = {{"127.0.0.1", 1}, deaf->endpoints[0], listener->endpoints[0]};
  Transports transports;
  transports.push_back(*make_tcp_transport(std::move(listener->tcp), peers, 0, secret));
  transports.push_back(*make_tcp_transport({}, peers, 1, secret));
  std::vector<std::byte> data(10, std::byte{1}), got(10);
  Pending p;
  transports[1]->send(0, 1, data, p);
  transports[0]->recv(1, 1, got, p);
  const auto deadline = soon();
  while (!p.done() && !deadline.passed()) {
    for (auto& transport : transports) {
      transport->progress(base::Deadline::after(std::chrono::milliseconds(1)));
    }
  }
  EXPECT_TRUE(p.done());
  EXPECT_EQ(p.error, nullptr);
  EXPECT_EQ(got, data);
}

}  // namespace
}  // namespace hv::runtime
