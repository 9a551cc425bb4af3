#include "rendezvous/auth.h"

#include <gtest/gtest.h>

#include <array>
#include <new>

namespace hv::rendezvous {
namespace {

using base::Bytes;
using base::Code;

ServerHandshake serve(const Secret& secret, Purpose served = Purpose::kRank) {
  return ServerHandshake([=](Purpose purpose) -> std::optional<Secret> {
    if (purpose == served) return secret;
    return std::nullopt;
  });
}

struct Pair {
  ClientHandshake client;
  ServerHandshake server;
};

// Both ends after a complete handshake.
Pair shake_hands(const Secret& secret) {
  Pair pair{ClientHandshake(secret, Purpose::kRank), serve(secret)};
  auto reply = pair.server.on_hello(pair.client.hello());
  EXPECT_TRUE(reply);
  auto proof = pair.client.on_reply(*reply);
  EXPECT_TRUE(proof);
  EXPECT_TRUE(pair.server.on_proof(*proof));
  return pair;
}

Bytes sealed(Sealer& sealer, std::string_view text) {
  auto buffer = base::to_bytes(text);
  sealer.seal(buffer, 0);
  return buffer;
}

TEST(Secret, HexGoesThereAndBack) {
  auto secret = Secret::random();
  auto hex = secret.hex();
  EXPECT_EQ(hex.size(), 64u);
  EXPECT_EQ(Secret::from_hex(hex)->hex(), hex);
  EXPECT_EQ(Secret::from_bytes(secret.bytes())->hex(), hex);
  EXPECT_NE(Secret::random().hex(), hex);
  EXPECT_FALSE(Secret::from_hex(hex.substr(1)));
  hex[10] = 'g';
  EXPECT_FALSE(Secret::from_hex(hex));
}

// HKDF-SHA256 as computed by another implementation.
TEST(Secret, DerivationIsHkdf) {
  auto secret =
      Secret::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  EXPECT_EQ(secret->derive("ranks").hex(),
            "b10fc58db176f3cce1a3bcde3969d0a3e88f52c881c6194c5e697269794dee92");
  EXPECT_NE(secret->derive("ranks").hex(), secret->derive("agents").hex());
}

TEST(Secret, IsWipedWhenItEnds) {
  alignas(Secret) std::array<std::byte, sizeof(Secret)> storage{};
  auto* secret = new (storage.data()) Secret(Secret::random());
  secret->~Secret();
  for (const volatile std::byte& byte : storage) {
    std::byte value = byte;
    EXPECT_EQ(value, std::byte{0});
  }
}

TEST(Handshake, BothEndsAgreeOnPurposeAndKeys) {
  auto [client, server] = shake_hands(Secret::random());
  EXPECT_EQ(server.purpose(), Purpose::kRank);
  auto to_server = client.make_sealer();
  auto from_client = server.make_opener();
  auto to_client = server.make_sealer();
  auto from_server = client.make_opener();
  for (std::string_view text : {"one", "", "three"}) {
    auto there = sealed(*to_server, text);
    auto opened = from_client->open(there);
    ASSERT_TRUE(opened);
    EXPECT_EQ(base::as_text(*opened), text);
    auto back = sealed(*to_client, text);
    opened = from_server->open(back);
    ASSERT_TRUE(opened);
    EXPECT_EQ(base::as_text(*opened), text);
  }
}

TEST(Handshake, AClientWithAnotherSecretFindsOut) {
  ClientHandshake client(Secret::random(), Purpose::kRank);
  auto server = serve(Secret::random());
  auto reply = server.on_hello(client.hello());
  ASSERT_TRUE(reply);
  auto proof = client.on_reply(*reply);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, Code::kAuth);
}

TEST(Handshake, AProofIsForOneHandshakeOnly) {
  auto secret = Secret::random();
  ClientHandshake client(secret, Purpose::kRank);
  auto first = serve(secret);
  auto second = serve(secret);
  auto proof = client.on_reply(*first.on_hello(client.hello()));
  ASSERT_TRUE(second.on_hello(client.hello()));
  auto replayed = second.on_proof(*proof);
  ASSERT_FALSE(replayed);
  EXPECT_EQ(replayed.error().code, Code::kAuth);
  EXPECT_TRUE(first.on_proof(*proof));
}

TEST(Handshake, AnyChangedBitIsNoticed) {
  auto secret = Secret::random();
  ClientHandshake client(secret, Purpose::kRank);
  auto changed = [](Bytes bytes, std::size_t bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    return bytes;
  };
  for (std::size_t bit = 0; bit < kHelloSize * 8; ++bit) {
    auto server = serve(secret);
    auto reply = server.on_hello(changed(client.hello(), bit));
    if (reply) {
      EXPECT_FALSE(ClientHandshake(client).on_reply(*reply)) << "hello bit " << bit;
    }
  }
  auto server = serve(secret);
  auto reply = server.on_hello(client.hello());
  for (std::size_t bit = 0; bit < kReplySize * 8; ++bit) {
    EXPECT_FALSE(ClientHandshake(client).on_reply(changed(*reply, bit))) << "reply bit " << bit;
  }
  auto proof = client.on_reply(*reply);
  for (std::size_t bit = 0; bit < kProofSize * 8; ++bit) {
    EXPECT_FALSE(server.on_proof(changed(*proof, bit))) << "proof bit " << bit;
  }
  EXPECT_TRUE(server.on_proof(*proof));
}

// A proof mirrored back must not pass for the other side's.
TEST(Handshake, TheTwoSidesProveDifferentThings) {
  auto secret = Secret::random();
  ClientHandshake client(secret, Purpose::kRank);
  auto server = serve(secret);
  auto reply = server.on_hello(client.hello());
  EXPECT_FALSE(server.on_proof(base::ByteSpan(*reply).last(kProofSize)));
}

TEST(Handshake, StrangersAreRefusedByTheirFirstBytes) {
  auto server = serve(Secret::random());
  auto http = base::to_bytes("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n...");
  http.resize(kHelloSize);
  auto answer = server.on_hello(http);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kProtocol);
  EXPECT_FALSE(server.on_hello({}));
  EXPECT_FALSE(server.on_proof({})) << "a proof without a hello";
  ClientHandshake data(Secret::random(), Purpose::kData);
  answer = server.on_hello(data.hello());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kAuth);
}

TEST(Sealed, AChangedByteIsNoticed) {
  auto [client, server] = shake_hands(Secret::random());
  auto original = sealed(*client.make_sealer(), "launch");
  for (std::size_t i = 0; i < original.size(); ++i) {
    auto changed = original;
    changed[i] ^= std::byte{1};
    auto opened = server.make_opener()->open(changed);
    ASSERT_FALSE(opened) << "byte " << i;
    EXPECT_EQ(opened.error().code, Code::kAuth);
  }
  EXPECT_FALSE(server.make_opener()->open(std::span(original).first(kTagSize - 1)));
}

TEST(Sealed, RepeatedSwappedAndMirroredFramesAreNoticed) {
  auto [client, server] = shake_hands(Secret::random());
  auto sealer = client.make_sealer();
  auto first = sealed(*sealer, "first");
  auto second = sealed(*sealer, "second");
  EXPECT_NE(sealed(*sealer, "first"), first);

  auto opener = server.make_opener();
  auto copy = first;
  EXPECT_TRUE(opener->open(copy));
  copy = first;
  EXPECT_FALSE(opener->open(copy)) << "repeated";

  copy = second;
  EXPECT_FALSE(server.make_opener()->open(copy)) << "swapped";
  copy = first;
  EXPECT_FALSE(client.make_opener()->open(copy)) << "mirrored";
}

}  // namespace
}  // namespace hv::rendezvous
