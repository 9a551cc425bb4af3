// The unit on every control stream: a type and a body. On the stream a frame is
//   u32 length of the rest | u16 type | body                   in clear: Unix socket, pipe, ssh
//   u32 length of the rest | AEAD(u16 type | body) | 16 byte tag        sealed: TCP
// FrameDecoder and FrameEncoder hold no socket: bytes go in, frames come out, and the other way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "rendezvous/auth.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::rendezvous {

enum class MsgType : std::uint16_t;

struct Frame {
  MsgType type{};
  base::Bytes body;
};

inline constexpr std::size_t kMaxFrame = 64u << 20;  // authenticated peers; see auth.h for others

class FrameEncoder {
 public:
  void seal_with(std::unique_ptr<Sealer> sealer) { sealer_ = std::move(sealer); }
  // Appends the encoded frame to `out`.
  void encode(const Frame& frame, base::Bytes& out);

 private:
  std::unique_ptr<Sealer> sealer_;
};

class FrameDecoder {
 public:
  void open_with(std::unique_ptr<Opener> opener) { opener_ = std::move(opener); }
  void feed(base::ByteSpan bytes);
  // The next complete frame; nullopt when more bytes are needed; an error (kProtocol, kAuth) ends
  // the stream for good.
  base::Result<std::optional<Frame>> next();

 private:
  base::Result<std::optional<Frame>> take();

  base::Bytes buffer_;
  std::size_t start_ = 0;  // of what next() has not handed out
  std::unique_ptr<Opener> opener_;
  std::optional<base::Error> broken_;
};

}  // namespace hv::rendezvous
