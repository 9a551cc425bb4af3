#include "rendezvous/codec.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/every_message.h"

namespace hv::tests {
namespace {

using namespace rendezvous;

TEST(Codec, EveryMessageSurvivesTheTrip) {
  std::set<MsgType> types;
  for_every_message([&]<class Message>(const Message& message) {
    types.insert(Message::kType);
    auto frame = encode(message);
    EXPECT_EQ(frame.type, Message::kType);
    auto back = decode<Message>(frame.body);
    ASSERT_TRUE(back) << back.error().text;
    EXPECT_EQ(encode_body(*back), frame.body);
  });
  EXPECT_EQ(types.size(), std::tuple_size_v<EveryMessage>) << "two messages share a type";
}

TEST(Codec, ACutMessageIsRefusedWhereverItIsCut) {
  for_every_message([]<class Message>(const Message& message) {
    auto body = encode_body(message);
    for (std::size_t length = 0; length < body.size(); ++length) {
      auto cut = decode<Message>(base::ByteSpan(body).first(length));
      ASSERT_FALSE(cut) << "type " << static_cast<int>(Message::kType) << " cut at " << length;
      EXPECT_EQ(cut.error().code, base::Code::kProtocol);
    }
    body.push_back({});
    EXPECT_FALSE(decode<Message>(body)) << "one byte too many";
  });
}

// There is one encoding for each value, so what a changed body decodes to encodes to that body.
TEST(Codec, AChangedBitIsRefusedOrIsAnotherValue) {
  for_every_message([]<class Message>(const Message& message) {
    auto body = encode_body(message);
    for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
      auto changed = body;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      auto back = decode<Message>(changed);
      if (back) {
        ASSERT_EQ(encode_body(*back), changed)
            << "type " << static_cast<int>(Message::kType) << " bit " << bit;
      }
    }
  });
}

TEST(Codec, AFalseCountDoesNotAllocate) {
  base::Bytes body;
  base::Writer out(body);
  out.put(std::uint32_t{1});           // epoch
  out.put(std::uint32_t{1});           // generation
  out.put(std::uint32_t{0xfffffff0});  // peers
  body.resize(body.size() + 64);
  EXPECT_FALSE(decode<PeerTable>(body));
}

TEST(Codec, ValuesOutsideAnEnumAreRefused) {
  Output output = filled<Output>();
  output.stream = static_cast<Stream>(3);
  EXPECT_FALSE(decode<Output>(encode_body(output)));
}

TEST(Codec, ErrorsKeepTheirParts) {
  base::Error error{base::Code::kPeerLost, "gone", "rank 3 on h2", 104};
  auto back = from_wire(to_wire(error));
  EXPECT_EQ(back.code, error.code);
  EXPECT_EQ(back.text, error.text);
  EXPECT_EQ(back.origin, error.origin);
  EXPECT_EQ(back.sys, error.sys);
  EXPECT_EQ(from_wire({200, "odd", "", 0}).code, base::Code::kInternal);
}

}  // namespace
}  // namespace hv::tests
