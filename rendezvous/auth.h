// Who may talk: the job's 256-bit secret, a challenge and response at both ends before anything
// else is parsed, and sealed (AES-256-GCM) frames whose keys are derived (HKDF-SHA256) from secret
// and both nonces. The handshake has fixed sizes, so a stranger never makes us allocate:
//   client → server  Hello   magic "HVRZ" | u8 version | u8 purpose | 32 byte nonce
//   server → client  Reply   32 byte nonce | 32 byte HMAC(secret, "server" | transcript)
//   client → server  Proof   32 byte HMAC(secret, "client" | transcript)
// Handshake holds no socket. Purpose keeps a control hello from being taken as a data-plane hello.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::rendezvous {

// 32 random bytes; wiped on destruction; printing it is not possible by accident.
class Secret {
 public:
  static constexpr std::size_t kSize = 32;
  static Secret random();
  static base::Result<Secret> from_hex(std::string_view hex);
  static base::Result<Secret> from_bytes(base::ByteSpan bytes);
  // A different secret for each purpose, so that ranks never hold the launcher's own.
  Secret derive(std::string_view purpose) const;
  std::string hex() const;
  base::ByteSpan bytes() const { return {bytes_.data(), bytes_.size()}; }
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

 private:
  Secret() = default;
  std::array<std::byte, kSize> bytes_{};
};

enum class Purpose : std::uint8_t { kAgent = 1, kRank = 2, kData = 3, kSegment = 4 };

inline constexpr std::size_t kTagSize = 16;

class Sealer {  // one direction of one stream; the frame counter is the nonce
 public:
  virtual ~Sealer() = default;
  // Encrypts everything after the first `start` bytes in place and appends the tag.
  virtual void seal(base::Bytes& buffer, std::size_t start) = 0;
};
class Opener {
 public:
  virtual ~Opener() = default;
  // Decrypts in place and yields the plain part; kAuth if a byte was changed, lost or repeated.
  virtual base::Result<base::ByteSpan> open(std::span<std::byte> sealed) = 0;
};

inline constexpr std::size_t kHelloSize = 4 + 1 + 1 + 32;
inline constexpr std::size_t kReplySize = 32 + 32;
inline constexpr std::size_t kProofSize = 32;
inline constexpr std::uint8_t kProtocolVersion = 1;

// The client's half. hello() first, then on_reply(), which checks the server and yields the proof.
class ClientHandshake {
 public:
  ClientHandshake(const Secret& secret, Purpose purpose);
  base::Bytes hello() const;
  base::Result<base::Bytes> on_reply(base::ByteSpan reply);  // kAuth: the server lacks the secret
  std::unique_ptr<Sealer> make_sealer() const;               // after on_reply
  std::unique_ptr<Opener> make_opener() const;

 private:
  Secret secret_;
  base::Bytes transcript_;
};

// The server's half. on_hello() yields the reply (kProtocol, kAuth otherwise), then on_proof().
class ServerHandshake {
 public:
  // Which secret belongs to a purpose; nullopt: that purpose is not served here.
  using SecretFor = std::function<std::optional<Secret>(Purpose)>;
  explicit ServerHandshake(SecretFor secret_for);
  base::Result<base::Bytes> on_hello(base::ByteSpan hello);
  base::Result<void> on_proof(base::ByteSpan proof);
  Purpose purpose() const { return purpose_; }
  std::unique_ptr<Sealer> make_sealer() const;  // after on_proof
  std::unique_ptr<Opener> make_opener() const;

 private:
  SecretFor secret_for_;
  Purpose purpose_{};
  std::optional<Secret> secret_;
  base::Bytes transcript_;
};

}  // namespace hv::rendezvous
