// Shared memory without names: sealed memfds, and descriptors passed over Unix sockets.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "runtime/transport/local_group.h"

namespace hv::runtime {

// Part sizes are rounded up to pages, large ones to huge pages, so that each part is touched first
// by its owner.
std::size_t rounded_part(std::size_t part_bytes);

// A memfd that can neither shrink nor grow, so that nobody who maps it can be made to fault.
base::Result<base::UniqueFd> make_sealed_memfd(std::string_view name, std::size_t bytes);

// Maps it, aligned to huge pages where large. kProtocol if it is not sealed or not as long.
base::Result<Segment> map_segment(const base::UniqueFd& memfd, std::size_t part_bytes, int parts);

// One message on a SOCK_SEQPACKET socket, with descriptors. Small; never split.
struct Packet {
  base::Bytes bytes;
  std::vector<base::UniqueFd> fds;
};
inline constexpr std::size_t kMaxPacket = 16 << 10;
inline constexpr std::size_t kMaxPacketFds = 200;
base::Result<void> send_packet(int socket, base::ByteSpan bytes, std::span<const int> fds = {});
// Empty bytes: the other end has closed. kSystem with EAGAIN: nothing there now.
base::Result<Packet> receive_packet(int socket);

}  // namespace hv::runtime
