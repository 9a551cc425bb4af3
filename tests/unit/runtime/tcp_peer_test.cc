// The matching of messages between two ranks, with the bytes carried by hand.
#include "runtime/transport/tcp_peer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace hv::runtime {
namespace {

// Two peers and the stream from one to the other. Control messages and pieces may be carried in
// either order, as on two sockets.
struct Pair {
  std::uint64_t finished = 0;
  TcpPeer a{"rank 1 on h1", finished}, b{"rank 0 on h0", finished};

  static base::Result<void> deliver(TcpPeer& from, TcpPeer& to, const ChannelSink::Outgoing& m) {
    auto memory = to.on_header(m.header);
    if (!memory) return base::fail(memory.error());
    if (!m.payload.empty()) std::memcpy(memory->data(), m.payload.data(), m.payload.size());
    if (auto fine = to.on_payload(m.header); !fine) return fine;
    from.on_written(m.header, m.context);
    return {};
  }
  static base::Result<void> carry_control(TcpPeer& from, TcpPeer& to) {
    while (!from.control().empty()) {
      const auto message = from.control().front();
      from.control().pop();
      if (auto fine = deliver(from, to, message); !fine) return fine;
    }
    return {};
  }
  static bool carry_piece(TcpPeer& from, TcpPeer& to) {
    auto piece = from.next_piece();
    return piece && deliver(from, to, *piece);
  }
};

std::vector<std::byte> message(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + seed);
  return data;
}

TEST(TcpPeer, ShortMessagesGoAtOnceWhicheverSideIsFirst) {
  for (const bool receive_first : {true, false}) {
    Pair pair;
    const auto sent = message(100, 1);
    std::vector<std::byte> got(100);
    Pending sending, receiving;
    if (receive_first) pair.b.recv(5, got, receiving);
    pair.a.send(5, sent, sending);
    ASSERT_TRUE(Pair::carry_control(pair.a, pair.b));
    EXPECT_TRUE(sending.done());
    if (!receive_first) pair.b.recv(5, got, receiving);
    EXPECT_TRUE(receiving.done());
    EXPECT_EQ(got, sent);
    EXPECT_EQ(pair.finished, 2u);
    EXPECT_FALSE(pair.a.has_pending());
    EXPECT_FALSE(pair.b.has_pending());
  }
}

TEST(TcpPeer, OneTagKeepsItsOrderAndTagsDoNotMix) {
  Pair pair;
  const auto first = message(10, 1), second = message(10, 2), other = message(10, 3);
  std::vector<std::byte> got_first(10), got_second(10), got_other(10);
  Pending p;
  pair.a.send(5, first, p);
  pair.a.send(6, other, p);
  pair.a.send(5, second, p);
  pair.b.recv(6, got_other, p);
  ASSERT_TRUE(Pair::carry_control(pair.a, pair.b));
  pair.b.recv(5, got_first, p);
  pair.b.recv(5, got_second, p);
  EXPECT_TRUE(p.done());
  EXPECT_EQ(got_first, first);
  EXPECT_EQ(got_second, second);
  EXPECT_EQ(got_other, other);
}

TEST(TcpPeer, LongMessagesWaitForAGrantAndThenComeInPieces) {
  for (const bool receive_first : {true, false}) {
    Pair pair;
    const auto sent = message(2 * kPieceBytes + 77, 1);
    std::vector<std::byte> got(sent.size());
    Pending sending, receiving;
    if (receive_first) pair.b.recv(5, got, receiving);
    pair.a.send(5, sent, sending);
    EXPECT_FALSE(pair.a.next_piece());
    ASSERT_TRUE(Pair::carry_control(pair.a, pair.b));
    if (!receive_first) pair.b.recv(5, got, receiving);
    ASSERT_TRUE(Pair::carry_control(pair.b, pair.a));
    int pieces = 0;
    while (Pair::carry_piece(pair.a, pair.b)) ++pieces;
    EXPECT_EQ(pieces, 3);
    EXPECT_TRUE(sending.done());
    EXPECT_TRUE(receiving.done());
    EXPECT_EQ(got, sent);
  }
}

TEST(TcpPeer, PiecesMayOvertakeTheirAnnouncement) {
  Pair pair;
  const auto sent = message(kPieceBytes, 1);
  std::vector<std::byte> got(sent.size());
  Pending sending, receiving;
  pair.b.recv(5, got, receiving);
  ASSERT_TRUE(Pair::carry_control(pair.b, pair.a));
  pair.a.send(5, sent, sending);
  ASSERT_TRUE(Pair::carry_piece(pair.a, pair.b));
  EXPECT_FALSE(receiving.done())
      << "the announcement is still to come, and would be taken for another";
  ASSERT_TRUE(Pair::carry_control(pair.a, pair.b));
  EXPECT_TRUE(receiving.done());
  EXPECT_EQ(got, sent);
}

TEST(TcpPeer, AMessageOfAnotherLengthEndsTheConnection) {
  for (const std::size_t bytes : {std::size_t{50}, kEagerBytes + 1}) {
    for (const bool receive_first : {true, false}) {
      Pair pair;
      const auto sent = message(bytes, 1);
      std::vector<std::byte> got(51);
      Pending sending, receiving;
      if (receive_first) pair.b.recv(5, got, receiving);
      pair.a.send(5, sent, sending);
      auto carried = Pair::carry_control(pair.a, pair.b);
      if (!receive_first) pair.b.recv(5, got, receiving);
      if (carried) {
        ASSERT_NE(pair.b.error(), nullptr);
        EXPECT_EQ(pair.b.error()->code, base::Code::kMismatch);
        ASSERT_TRUE(receiving.done());
        EXPECT_EQ(receiving.error->code, base::Code::kMismatch);
      } else {
        EXPECT_EQ(carried.error().code, base::Code::kMismatch);
      }
    }
  }
}

TEST(TcpPeer, FailingEndsWhatIsPendingAndWhatComesLater) {
  Pair pair;
  const auto sent = message(kEagerBytes + 1, 1);
  std::vector<std::byte> got(10);
  Pending p, later;
  pair.a.send(5, sent, p);
  pair.a.recv(6, got, p);
  pair.a.send(7, {sent.data(), 10}, p);
  EXPECT_EQ(p.left, 3u);
  pair.a.fail({base::Code::kPeerLost, "gone", {}, 0});
  EXPECT_TRUE(p.done());
  EXPECT_EQ(p.error->text, "gone");
  pair.a.send(5, sent, later);
  EXPECT_TRUE(later.done());
  EXPECT_EQ(later.error->text, "gone");
}

TEST(TcpPeer, WhatHadArrivedBeforeTheFailureCanBeTaken) {
  Pair pair;
  const auto sent = message(10, 1);
  std::vector<std::byte> got(10);
  Pending sending, receiving;
  pair.a.send(5, sent, sending);
  ASSERT_TRUE(Pair::carry_control(pair.a, pair.b));
  pair.b.fail({base::Code::kPeerLost, "gone", {}, 0});
  pair.b.recv(5, got, receiving);
  EXPECT_TRUE(receiving.done());
  EXPECT_EQ(receiving.error, nullptr);
  EXPECT_EQ(got, sent);
}

TEST(TcpPeer, RefusesBytesThatNobodyWaitsFor) {
  Pair pair;
  const auto memory = pair.b.on_header({WireKind::kPiece, 10, 0, 99, 0});
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, base::Code::kProtocol);
  EXPECT_FALSE(pair.b.on_header({static_cast<WireKind>(77), 0, 0, 0, 0}));
  std::vector<std::byte> got(100 << 10);
  Pending p;
  pair.b.recv(5, got, p);
  const auto grant = pair.b.control().front().header;
  EXPECT_FALSE(pair.b.on_header({WireKind::kPiece, 10, 0, grant.receive, (100 << 10) - 9}));
}

}  // namespace
}  // namespace hv::runtime
