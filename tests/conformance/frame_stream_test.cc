// FrameStream over sockets and pipes: back-pressure, pieces, the end of the stream.
#include "rendezvous/frame_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace hv::rendezvous {
namespace {

using base::Code;
using base::UniqueFd;

struct Ends {
  FrameStream left, right;
};

Ends socket_ends() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {FrameStream(UniqueFd(fds[0])), FrameStream(UniqueFd(fds[1]))};
}

Ends pipe_ends() {
  ::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> there{}, back{};
  EXPECT_EQ(::pipe2(there.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(back.data(), O_CLOEXEC), 0);
  return {FrameStream(UniqueFd(back[0]), UniqueFd(there[1])),
          FrameStream(UniqueFd(there[0]), UniqueFd(back[1]))};
}

class FrameStreamTest : public testing::TestWithParam<bool> {
 protected:
  static Ends ends() { return GetParam() ? pipe_ends() : socket_ends(); }
};

Frame frame(int type, std::size_t bytes) {
  Frame made{static_cast<MsgType>(type), base::Bytes(bytes)};
  for (std::size_t i = 0; i < bytes; ++i) made.body[i] = static_cast<std::byte>(i * 31);
  return made;
}

TEST_P(FrameStreamTest, AFrameLargerThanTheKernelsBufferPassesInTurns) {
  auto [left, right] = ends();
  auto large = frame(1, 5 << 20);
  left.send(large);
  left.send(frame(2, 10));
  std::vector<Frame> got;
  int turns = 0;
  while (got.size() < 2 && ++turns < 10000) {
    ASSERT_TRUE(left.on_writable());
    ASSERT_TRUE(right.on_readable());
    while (auto next = right.next()) {
      if (!*next) break;
      got.push_back(std::move(**next));
    }
  }
  ASSERT_EQ(got.size(), 2u);
  EXPECT_GT(turns, 1) << "it did not fit at once";
  EXPECT_EQ(got[0].body, large.body);
  EXPECT_EQ(left.queued(), 0u);
}

TEST_P(FrameStreamTest, WritingNeverBlocks) {
  auto [left, right] = ends();
  for (int i = 0; i < 100; ++i) left.send(frame(1, 100000));
  ASSERT_TRUE(left.on_writable());
  EXPECT_GT(left.queued(), 0u) << "nobody reads";
  ASSERT_TRUE(right.on_readable());
}

TEST_P(FrameStreamTest, ReadingWithNothingThereIsNoError) {
  auto [left, right] = ends();
  ASSERT_TRUE(right.on_readable());
  auto next = right.next();
  ASSERT_TRUE(next);
  EXPECT_FALSE(*next);
}

TEST_P(FrameStreamTest, TheLastFrameComesBeforeTheEnd) {
  auto [left, right] = ends();
  left.send(frame(7, 100));
  ASSERT_TRUE(left.on_writable());
  { FrameStream ended = std::move(left); }
  auto read = right.on_readable();
  if (read) read = right.on_readable();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kPeerLost);
  auto last = right.next();
  ASSERT_TRUE(last && *last);
  EXPECT_EQ((*last)->type, static_cast<MsgType>(7));
}

TEST_P(FrameStreamTest, WritingToAClosedEndIsALoss) {
  auto [left, right] = ends();
  { FrameStream ended = std::move(right); }
  left.send(frame(7, 100));
  auto written = left.on_writable();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kPeerLost);
  EXPECT_EQ(written.error().sys, EPIPE);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FrameStreamTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "pipes" : "socket"; });

}  // namespace
}  // namespace hv::rendezvous
