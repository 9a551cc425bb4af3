#include "tests/fuzz/control_plane_fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/codec.h"
#include "rendezvous/contract.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/frame.h"
#include "rendezvous/store_state.h"
#include "tests/support/every_message.h"

namespace hv::tests {

using namespace rendezvous;

namespace {

void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

struct Decoded {
  std::vector<Frame> frames;
  bool ended = false;
};

Decoded decode_in_pieces(FuzzInput input, std::size_t piece) {
  FrameDecoder decoder;
  Decoded decoded;
  while (!decoded.ended) {
    auto head = input.first(std::min(piece, input.size()));
    input = input.subspan(head.size());
    decoder.feed(head);
    for (;;) {
      auto frame = decoder.next();
      if (!frame) decoded.ended = true;
      if (!frame || !*frame) break;
      decoded.frames.push_back(std::move(**frame));
    }
    if (input.empty()) break;
  }
  return decoded;
}

}  // namespace

void fuzz_frames(FuzzInput input) {
  auto whole = decode_in_pieces(input, input.size());
  std::size_t bytes = 0;
  for (const auto& frame : whole.frames) bytes += frame.body.size() + 6;
  promise(bytes <= input.size(), "frames hold no more than came");
  for (std::size_t piece : {1u, 3u, 7u}) {
    auto pieces = decode_in_pieces(input, piece);
    promise(pieces.ended == whole.ended, "pieces end like the whole");
    promise(pieces.frames.size() == whole.frames.size(), "pieces give as many frames");
    for (std::size_t i = 0; i < whole.frames.size(); ++i) {
      promise(pieces.frames[i].type == whole.frames[i].type, "the same type");
      promise(pieces.frames[i].body == whole.frames[i].body, "the same body");
    }
  }
}

void fuzz_messages(FuzzInput input) {
  auto check = [&]<class... Message>(std::type_identity<std::tuple<Message...>>) {
    auto one = [&]<class M>(std::type_identity<M>) {
      auto message = decode<M>(input);
      if (!message) return;
      auto back = encode_body(*message);
      promise(std::equal(back.begin(), back.end(), input.begin(), input.end()),
              "a message has one encoding");
    };
    (one(std::type_identity<Message>{}), ...);
  };
  check(std::type_identity<EveryMessage>{});
}

// The input is a row of: u8 client, u8 action or kind of frame, u8 length, body.
void fuzz_store(FuzzInput input) {
  constexpr int kSize = 3;
  StoreState state("b", {.key_bytes = 32, .value_bytes = 64, .total_bytes = 256});
  state.begin_epoch(1, kSize);
  auto now = StoreState::Time{} + std::chrono::hours(1);
  base::Reader in(input);
  for (int step = 0; in.left() > 0 && step < 4096; ++step) {
    StoreState::Client client = in.get<std::uint8_t>() % 5 + 1;
    auto kind = in.get<std::uint8_t>();
    auto body = in.take(std::min<std::size_t>(in.get<std::uint8_t>(), in.left()));
    now += std::chrono::milliseconds(10);
    StoreState::Effects effects;
    switch (kind % 16) {
      case 0:
        effects = state.on_closed(client);
        break;
      case 1:
        effects = state.begin_epoch(kind / 16, kSize);
        break;
      case 2:
        effects = state.fail_epoch(client % kSize, {base::Code::kPeerLost, "fuzz"});
        break;
      default: {
        Frame frame{static_cast<MsgType>(static_cast<int>(MsgType::kRankHello) + kind % 16 - 3),
                    {body.begin(), body.end()}};
        effects = state.on_frame(client, frame, now);
        promise(!effects.drop || effects.events.size() <= 1, "a dropped client does one thing");
      }
    }
    for (const auto& send : effects.sends) {
      promise(send.to <= 5, "only clients that exist are answered");
      promise(send.frame.type >= MsgType::kRankWelcome, "ranks hear what is for ranks");
    }
    promise(state.on_time(now).sends.size() <= 4096, "waits are bounded");
    promise(state.next_time() > now, "what is due has been answered");
  }
}

void fuzz_strangers(FuzzInput input) {
  static const Secret secret = Secret::random();
  ServerHandshake server([](Purpose) { return secret; });
  auto hello = input.first(std::min(input.size(), kHelloSize));
  auto reply = server.on_hello(hello);
  promise(!reply || reply->size() == kReplySize, "a reply has its size");
  if (reply) {
    auto rest = input.subspan(hello.size());
    promise(!server.on_proof(rest.first(std::min(rest.size(), kProofSize))),
            "nobody proves a secret by chance");
  }
  ClientHandshake client(secret, Purpose::kAgent);
  promise(!client.on_reply(input.first(std::min(input.size(), kReplySize))),
          "no server proves a secret by chance");
  std::string text(base::as_text(input));
  if (auto endpoint = parse_endpoint(text)) {
    promise(to_string(*endpoint).size() <= text.size(), "an endpoint has one short form");
  }
  (void)read_contract([&](const char* name) -> std::optional<std::string> {
    std::size_t at = std::string_view(name).size() % (text.size() + 1);
    return text.substr(at, 80);
  });
}

}  // namespace hv::tests
