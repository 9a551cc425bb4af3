// What a prober offers to the others: connections that are echoed, swallowed or filled, for those
// to measure. Only who holds the probers' secret gets in; then both ends say who they are.
//
// Threads: one accepts, one for each connection; all have ended when the service is destroyed.
// Owner: the prober. Failure: a bad connection is closed, nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/listen.h"

namespace hv::launcher::diagnose {

class PeerService {
 public:
  // Opens a port and serves it from now on.
  static base::Result<std::unique_ptr<PeerService>> open(const rendezvous::Secret& secret,
                                                         std::uint32_t host,
                                                         const rendezvous::ListenOptions& listen);
  ~PeerService();
  std::uint16_t port() const { return port_; }

 private:
  struct Guest {
    base::UniqueFd socket;
    std::thread thread;
    std::atomic<bool> ended{false};
  };
  PeerService(std::vector<base::UniqueFd> listening, std::uint16_t port, base::UniqueFd stop,
              const rendezvous::Secret& secret, std::uint32_t host);
  void run();
  void accept_one(int listening);

  const std::vector<base::UniqueFd> listening_;
  const std::uint16_t port_;
  const base::UniqueFd stop_;  // readable: end
  const rendezvous::Secret secret_;
  const std::uint32_t host_;
  std::list<Guest> guests_;  // the accepting thread's, until that has ended
  std::thread thread_;       // last: it uses all of the above
};

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
