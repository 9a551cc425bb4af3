// What travels between two ranks over their sockets, after the handshake.
//
// Messages up to kEagerBytes go at once (kEager), on channel 0, and wait at the receiver if they
// must. A longer one is announced there, so that the order per tag is known, and its bytes (kPiece)
// go over any channel once the receiver has granted the memory, straight into it. Grants are sent
// when the receive is posted, so bytes usually wait for nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hv::runtime {

enum class WireKind : std::uint32_t { kEager = 1, kAnnounce, kGrant, kPiece };

struct WireHeader {
  WireKind kind{};
  std::uint32_t payload = 0;  // bytes that follow: kEager, kPiece
  std::uint64_t tag = 0;      // kEager, kAnnounce, kGrant
  std::uint64_t receive = 0;  // the receiver's number for its memory: kGrant, kPiece
  std::uint64_t extent = 0;   // kAnnounce, kGrant: bytes of the message; kPiece: offset in it
};
static_assert(sizeof(WireHeader) == 32);

inline constexpr std::size_t kEagerBytes = 64 << 10;
inline constexpr std::size_t kPieceBytes = 256 << 10;
inline constexpr int kChannels = 2;  // sockets per pair of ranks

// Follows the proof of the handshake: which rank, of which job and epoch, and which of its sockets.
struct DataHello {
  std::uint64_t plan = 0;  // hash of the peer table
  std::uint32_t rank = 0;
  std::uint32_t channel = 0;
};
static_assert(sizeof(DataHello) == 16);

}  // namespace hv::runtime
