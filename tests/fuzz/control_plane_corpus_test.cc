// The fuzz targets over a corpus made from every real message and frame, and over thousands of
// changed copies of it.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/codec.h"
#include "tests/fuzz/control_plane_fuzz.h"
#include "tests/support/every_message.h"

namespace hv::tests {
namespace {

using namespace rendezvous;
using base::Bytes;
using Corpus = std::vector<Bytes>;

Corpus bodies() {
  Corpus corpus = {{}};
  for_every_message([&](const auto& message) { corpus.push_back(encode_body(message)); });
  return corpus;
}

Corpus streams() {
  Corpus corpus = {{}};
  Bytes all;
  for_every_message([&](const auto& message) {
    FrameEncoder().encode(encode(message), all);
    corpus.push_back(all);
  });
  Bytes huge;
  base::Writer(huge).put(std::uint32_t{0xffffffff});
  corpus.push_back(huge);
  return corpus;
}

// A short life of three ranks, as fuzz_store() reads it.
Corpus conversations() {
  Bytes script;
  auto add = [&](std::uint8_t client, const Frame& frame) {
    base::Writer out(script);
    out.put(client);
    out.put(static_cast<std::uint8_t>(static_cast<int>(frame.type) -
                                      static_cast<int>(MsgType::kRankHello) + 3));
    out.put(static_cast<std::uint8_t>(frame.body.size()));
    out.append(frame.body);
  };
  for (std::uint8_t i = 0; i < 3; ++i) add(i, encode(RankHello{1, i, 100, "b"}));
  add(0, encode(StoreGet{1, 1, "k", 30}));
  add(1, encode(StoreSet{1, 1, "k", base::to_bytes("v")}));
  add(2, encode(StoreAdd{1, 1, "n", 5}));
  for (std::uint8_t i = 0; i < 3; ++i) {
    PeerInfo self;
    self.rank = i;
    add(i, encode(Join{2, 1, 50, self}));
  }
  add(0, encode(Leave{3, 1}));
  add(1, encode(RankFault{1, {5, "gone", "", 0}}));
  return {{}, script};
}

Corpus greetings() {
  Corpus corpus = {{},
                   base::to_bytes("GET / HTTP/1.1\r\n\r\n"),
                   base::to_bytes("[::1]:80"),
                   base::to_bytes("10.0.0.1:4000")};
  corpus.push_back(ClientHandshake(Secret::random(), Purpose::kAgent).hello());
  corpus.push_back(corpus.back());
  corpus.back().resize(200);
  return corpus;
}

Bytes mutate(Bytes bytes, const Corpus& corpus, std::mt19937& random) {
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (auto edits = 1 + below(5); edits > 0; --edits) {
    if (bytes.empty()) bytes.resize(1 + below(16));
    std::size_t at = below(bytes.size());
    auto where = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(below(2) == 0 ? 0xff : below(4));
        break;
      case 2:
        bytes.erase(where, where + static_cast<std::ptrdiff_t>(below(bytes.size() - at)));
        break;
      case 3:
        bytes.insert(where, 1 + below(8), static_cast<std::byte>(below(256)));
        break;
      default: {
        const auto& other = corpus[below(corpus.size())];
        bytes.insert(where, other.begin(),
                     other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1)));
      }
    }
  }
  return bytes;
}

void run(void (*target)(FuzzInput), const Corpus& corpus, int rounds) {
  std::mt19937 random(20);  // NOLINT: the same inputs in every run
  for (const auto& input : corpus) target(input);
  for (int round = 0; round < rounds; ++round) {
    target(mutate(corpus[static_cast<std::size_t>(round) % corpus.size()], corpus, random));
  }
}

TEST(ControlPlaneFuzz, Frames) { run(fuzz_frames, streams(), 4000); }
TEST(ControlPlaneFuzz, Messages) { run(fuzz_messages, bodies(), 10000); }
TEST(ControlPlaneFuzz, Store) { run(fuzz_store, conversations(), 20000); }
TEST(ControlPlaneFuzz, Strangers) { run(fuzz_strangers, greetings(), 5000); }

}  // namespace
}  // namespace hv::tests
