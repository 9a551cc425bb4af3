// The server's door against strangers, and dial() against every kind of address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/client.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/server.h"
#include "tests/support/memory_use.h"
#include "tests/support/test_server.h"

namespace hv::tests {
namespace {

using namespace rendezvous;
using namespace std::chrono_literals;
using base::Clock;
using base::Deadline;
using testing::HasSubstr;

void send_all(int fd, base::ByteSpan bytes) {
  (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// True when the other end closes within the time; what it sends before does not matter.
bool closes_within(int fd, std::chrono::milliseconds time) {
  auto deadline = Deadline::after(time);
  std::array<char, 256> sink;
  for (;;) {
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, deadline.poll_ms()) == 0) return false;
    if (::recv(fd, sink.data(), sink.size(), 0) <= 0) return true;
  }
}

Server::Options quick_handshake() {
  Server::Options options;
  options.handshake = 300ms;
  return options;
}

TEST(Strangers, AreDroppedAndCountedAndTheJobGoesOn) {
  TestServer server(quick_handshake());
  server.begin_epoch(1, 1);
  ClientHandshake wrong_secret(Secret::random(), Purpose::kRank);
  ClientHandshake data(Secret::random(), Purpose::kData);
  base::Bytes huge;
  base::Writer(huge).put(std::uint32_t{0xffffffff});
  auto long_garbage = base::to_bytes(std::string(100000, 'x'));
  auto wrong_proof = wrong_secret.hello();
  wrong_proof.resize(kHelloSize + kProofSize);
  std::vector<base::Bytes> openings = {
      base::to_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      base::to_bytes("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 client hello"),
      base::to_bytes("SSH-2.0-OpenSSH_9.2\r\n"),
      base::to_bytes("\x7f\x03random"),
      huge,
      long_garbage,
      wrong_proof,
      data.hello(),
      wrong_secret.hello(),  // and then silence
      {},                    // silence from the start
  };
  std::vector<base::UniqueFd> strangers;
  for (const auto& opening : openings) {
    strangers.push_back(connect_raw(server.endpoints()[0]));
    send_all(strangers.back().get(), opening);
  }
  auto store = open_rank(server, 0, 1);
  ASSERT_TRUE(store->set("still", base::as_bytes("works")));
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    EXPECT_TRUE(closes_within(strangers[i].get(), 3s)) << "stranger " << i;
  }
  auto seen = server.on_thread([](Server& s) { return s.strangers(); });
  EXPECT_EQ(seen.dropped, openings.size());
  EXPECT_THAT(seen.last_address, HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(store->get("still", Deadline::after(5s)));
  store->leave();
}

TEST(Strangers, WhoSendsAByteNowAndThenIsDroppedInTimeToo) {
  TestServer server(quick_handshake());
  auto stranger = connect_raw(server.endpoints()[0]);
  ClientHandshake handshake(Secret::random(), Purpose::kAgent);
  auto hello = handshake.hello();
  auto begin = Clock::now();
  bool closed = false;
  for (std::size_t i = 0; i + 1 < hello.size() && !closed; ++i) {
    send_all(stranger.get(), base::ByteSpan(hello).subspan(i, 1));
    closed = closes_within(stranger.get(), 50ms);
  }
  EXPECT_TRUE(closed);
  EXPECT_LT(Clock::now() - begin, 1500ms);
}

TEST(Strangers, TwoHundredSilentOnesCostNoMemoryAndAreAllDropped) {
  Server::Options options;
  options.handshake = 1000ms;
  TestServer server(options);
  server.begin_epoch(1, 1);
  std::size_t before = memory_in_use_kib();
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_raw(server.endpoints()[0]));
  auto store = open_rank(server, 0, 1);
  EXPECT_TRUE(store->set("still", base::as_bytes("works")));
  std::size_t after = memory_in_use_kib();
  EXPECT_LT(after, before + 4096) << "KiB; 200 connections";
  for (auto& stranger : strangers) EXPECT_TRUE(closes_within(stranger.get(), 5s));
  EXPECT_EQ(server.on_thread([](Server& s) { return s.strangers().dropped; }), 200u);
  store->leave();
}

TEST(Strangers, AFullDoorMakesRoomForHonestClients) {
  Server::Options options;
  options.handshake = 60s;
  options.max_strangers = 8;
  TestServer server(options);
  server.begin_epoch(1, 1);
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 24; ++i) strangers.push_back(connect_raw(server.endpoints()[0]));
  auto begin = Clock::now();
  auto store = open_rank(server, 0, 1);
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_TRUE(store->set("came", base::as_bytes("through")));
  store->leave();
}

TEST(Strangers, WhoTriesAllAddressesAtOnceIsNone) {
  TestServer server;
  server.begin_epoch(1, 2);
  auto endpoint = server.endpoints()[0];
  std::vector<Endpoint> many(8, endpoint);
  auto secret = *server.contract(0, 2, 1).secret;
  for (int i = 0; i < 5; ++i) {
    auto connection = dial(many, secret, Purpose::kRank, Deadline::after(10s));
    ASSERT_TRUE(connection) << connection.error().text;
    EXPECT_EQ(connection->local_address, "127.0.0.1");
  }
  auto store = open_rank(server, 0, 2);
  store->leave();
  EXPECT_EQ(server.on_thread([](Server& s) { return s.strangers().dropped; }), 0u);
}

// ---- dial ----------------------------------------------------------------------------------

TEST(Dial, ListsEveryAddressWithItsReason) {
  Listening closed = std::move(*open_listening({}));
  Endpoint refused = closed.endpoints[0];
  closed.sockets.clear();
  Listening silent = std::move(*open_listening({}));
  TestServer server;
  auto connection = dial({refused, silent.endpoints[0], {"h1", 80}, server.endpoints()[0]},
                         Secret::random(), Purpose::kAgent, Deadline::after(500ms));
  ASSERT_FALSE(connection);
  std::string text = connection.error().text;
  EXPECT_THAT(text, HasSubstr(to_string(refused) + " (Connection refused)"));
  EXPECT_THAT(text, HasSubstr(to_string(silent.endpoints[0]) + " (no answer within 0.5 s)"));
  EXPECT_THAT(text, HasSubstr("h1:80 ('h1' is no numeric address)"));
  EXPECT_THAT(text, HasSubstr(to_string(server.endpoints()[0]) +
                              " (what answers there does not hold this job's secret)"));
}

TEST(Dial, AWrongSecretIsCountedByTheServer) {
  TestServer server;
  EXPECT_FALSE(dial(server.endpoints(), Secret::random(), Purpose::kAgent, Deadline::after(10s)));
  auto deadline = Deadline::after(10s);
  auto dropped = [&] { return server.on_thread([](Server& s) { return s.strangers().dropped; }); };
  while (dropped() < server.endpoints().size() && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(dropped(), server.endpoints().size());
}

TEST(Dial, KeepsTheAddressThatProvesTheSecret) {
  TestServer impostor, server;
  auto connection = dial({impostor.endpoints()[0], server.endpoints()[0]}, server.secret,
                         Purpose::kAgent, Deadline::after(10s));
  ASSERT_TRUE(connection) << connection.error().text;
  EXPECT_EQ(connection->remote, server.endpoints()[0]);
}

TEST(Dial, RanksDoNotPassForAgents) {
  TestServer server;
  auto ranks = *server.contract(0, 1, 1).secret;
  EXPECT_FALSE(dial(server.endpoints(), ranks, Purpose::kAgent, Deadline::after(10s)));
  EXPECT_FALSE(dial(server.endpoints(), server.secret, Purpose::kRank, Deadline::after(10s)));
}

}  // namespace
}  // namespace hv::tests
