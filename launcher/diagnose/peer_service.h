// What a prober offers to the others: connections that are echoed, swallowed or filled, for those
// to measure. Only who holds the probers' secret gets in; then both ends say who they are.
//
// Threads: one accepts, one for each connection; none ever ends the process. Owner: the prober,
// for the rest of its process's life. Failure: a bad connection is closed, nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/listen.h"

namespace hv::launcher::diagnose {

// Opens a port and serves it from now on. The port.
base::Result<std::uint16_t> serve_peers(const rendezvous::Secret& secret, std::uint32_t host,
                                        const rendezvous::ListenOptions& listen);

// ---- what both ends know. After the handshake, in clear:
//   service → caller  PeerGreeting        caller → service  PeerOrder        then as ordered
struct PeerGreeting {
  std::uint32_t host = 0;  // index of the service's host
  char seen_as[60] = {};   // the caller's address, as the service sees it
};
enum class PeerWork : std::uint32_t { kEcho = 1, kSink, kSource };
struct PeerOrder {
  PeerWork work = PeerWork::kEcho;
  std::uint32_t ms = 0;  // to send for
};
// kEcho: each Ping comes back, until the caller closes. kSink: the caller sends, closes its half,
// and gets a Flow. kSource: the service sends and closes.
struct Ping {
  std::uint64_t number = 0;
};
struct Flow {  // what came, and when by the clock of who received it
  double bits = 0;
  std::int64_t from_us = 0, to_us = 0;
};

// Blocking, within the time that is set for the socket. False: closed, broken or too late.
bool set_blocking(int fd, base::Millis limit);
bool read_whole(int fd, void* into, std::size_t size);
bool write_whole(int fd, const void* from, std::size_t size);
// Sends as fast as it goes for that time, then closes this half.
void send_flow(int fd, base::Millis time);
// What comes until the end or the end of `time`; its first quarter, in which the flow gets going,
// does not count.
Flow receive_flow(int fd, base::Millis time);

}  // namespace hv::launcher::diagnose
