#include "rendezvous/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {
namespace {

using base::Bytes;
using base::ByteSpan;
using base::Code;

struct Ends {
  FrameEncoder encoder;
  FrameDecoder decoder;
};

Ends clear_ends() { return {}; }

Ends sealed_ends() {
  auto secret = Secret::random();
  ClientHandshake client(secret, Purpose::kAgent);
  ServerHandshake server([=](Purpose) { return secret; });
  EXPECT_TRUE(client.on_reply(*server.on_hello(client.hello())));
  Ends ends;
  ends.encoder.seal_with(client.make_sealer());
  ends.decoder.open_with(server.make_opener());
  return ends;
}

class FrameTest : public testing::TestWithParam<bool> {
 protected:
  static Ends ends() { return GetParam() ? sealed_ends() : clear_ends(); }
};

Frame frame(int type, std::string_view body) {
  return {static_cast<MsgType>(type), base::to_bytes(body)};
}

Bytes wire(FrameEncoder& encoder, const std::vector<Frame>& frames) {
  Bytes bytes;
  for (const auto& one : frames) encoder.encode(one, bytes);
  return bytes;
}

void expect_next(FrameDecoder& decoder, const Frame& expected) {
  auto next = decoder.next();
  ASSERT_TRUE(next) << next.error().text;
  ASSERT_TRUE(*next);
  EXPECT_EQ((*next)->type, expected.type);
  EXPECT_EQ((*next)->body, expected.body);
}

void expect_nothing(FrameDecoder& decoder) {
  auto next = decoder.next();
  ASSERT_TRUE(next) << next.error().text;
  EXPECT_FALSE(*next);
}

TEST_P(FrameTest, FramesComeOutAsTheyWentInWhereverTheStreamIsCut) {
  std::vector<Frame> frames = {frame(1, "first"), frame(2, ""), frame(65535, "third")};
  for (std::size_t piece = 1; piece < 40; ++piece) {
    auto [encoder, decoder] = ends();
    auto bytes = wire(encoder, frames);
    std::vector<Frame> got;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.feed(ByteSpan(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      for (;;) {
        auto next = decoder.next();
        ASSERT_TRUE(next);
        if (!*next) break;
        got.push_back(**next);
      }
    }
    ASSERT_EQ(got.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(got[i].type, frames[i].type);
      EXPECT_EQ(got[i].body, frames[i].body);
    }
  }
}

TEST_P(FrameTest, ALargeFrameComesOutWhole) {
  auto [encoder, decoder] = ends();
  Frame large{static_cast<MsgType>(7), Bytes(3 << 20)};
  for (std::size_t i = 0; i < large.body.size(); ++i) large.body[i] = static_cast<std::byte>(i);
  decoder.feed(wire(encoder, {large, frame(8, "after")}));
  expect_next(decoder, large);
  expect_next(decoder, frame(8, "after"));
  expect_nothing(decoder);
}

TEST_P(FrameTest, AnIncompleteFrameIsNoFrame) {
  auto bytes_of_one = [](Ends& both) { return wire(both.encoder, {frame(1, "body")}); };
  auto probe = ends();
  for (std::size_t length = 0; length < bytes_of_one(probe).size(); ++length) {
    auto both = ends();
    both.decoder.feed(ByteSpan(bytes_of_one(both)).first(length));
    expect_nothing(both.decoder);
  }
}

TEST_P(FrameTest, ALengthOutsideTheBoundsEndsTheStream) {
  for (std::uint32_t length : {0u, 1u, static_cast<unsigned>(kMaxFrame) + 1, 0xffffffffu}) {
    auto both = ends();
    Bytes bytes;
    base::Writer(bytes).put(length);
    both.decoder.feed(bytes);
    auto next = both.decoder.next();
    ASSERT_FALSE(next) << length;
    EXPECT_EQ(next.error().code, Code::kProtocol);
    both.decoder.feed(wire(both.encoder, {frame(1, "fine")}));
    EXPECT_FALSE(both.decoder.next()) << "the error stays";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FrameTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "sealed" : "clear"; });

TEST(SealedFrame, AnyChangedBitEndsTheStream) {
  auto probe = sealed_ends();
  std::size_t size = wire(probe.encoder, {frame(1, "body")}).size();
  for (std::size_t bit = 32; bit < size * 8; ++bit) {  // after the length
    auto both = sealed_ends();
    auto bytes = wire(both.encoder, {frame(1, "body")});
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    both.decoder.feed(bytes);
    auto next = both.decoder.next();
    ASSERT_FALSE(next) << "bit " << bit;
    EXPECT_EQ(next.error().code, Code::kAuth);
  }
}

TEST(SealedFrame, ALostOrRepeatedFrameEndsTheStream) {
  auto both = sealed_ends();
  auto first = wire(both.encoder, {frame(1, "first")});
  auto second = wire(both.encoder, {frame(2, "second")});
  both.decoder.feed(first);
  expect_next(both.decoder, frame(1, "first"));
  both.decoder.feed(first);
  EXPECT_FALSE(both.decoder.next());

  both = sealed_ends();
  first = wire(both.encoder, {frame(1, "first")});
  second = wire(both.encoder, {frame(2, "second")});
  both.decoder.feed(second);
  EXPECT_FALSE(both.decoder.next());
}

TEST(SealedFrame, HidesTheBody) {
  auto both = sealed_ends();
  auto bytes = wire(both.encoder, {frame(1, "TOKEN=very-secret")});
  EXPECT_EQ(base::as_text(bytes).find("secret"), std::string_view::npos);
}

}  // namespace
}  // namespace hv::rendezvous
