// The server's listening sockets: made once, kept, never bound again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

struct ListenOptions {
  bool loopback_only = true;
  std::string bind_address;    // empty: all interfaces (or loopback)
  std::uint16_t port_low = 0;  // 0: any free port
  std::uint16_t port_high = 0;
};

struct Listening {
  std::vector<base::UniqueFd> sockets;  // one, or one for each IP version; non-blocking
  std::vector<Endpoint> endpoints;      // where others may connect, best first
};

// One port for IPv4 and IPv6, as far as this machine has them. kUsage if no port of the range is
// free or the address is not ours.
base::Result<Listening> open_listening(const ListenOptions& options);

}  // namespace hv::rendezvous
