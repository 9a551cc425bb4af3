// TcpDialer: makes authenticated sockets: connects to lower ranks over all their addresses, one
// more each second until one answers, and lets higher ranks in at the listener.
//
// Thread: the transport's lock. Owner: the transport. Failure: strangers are dropped; a rank that
// cannot be reached is reported with every address and its reason.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/messages.h"
#include "runtime/transport/data_handshake.h"

namespace hv::runtime {

class TcpDialer {
 public:
  struct Events {
    std::function<void(int rank, int channel, base::UniqueFd socket)> on_open;
    std::function<void(int rank, std::string reason)> on_unreachable;
  };
  TcpDialer(int epoll, base::UniqueFd listener, const std::vector<rendezvous::PeerInfo>& peers,
            int rank, const rendezvous::Secret& secret, Events events);

  // Connects channel 0 of a lower rank, unless that is under way; the others follow.
  void connect(int rank);
  // An epoll event of one of this object's descriptors; `id` as registered.
  void on_event(std::uint64_t id);
  void close();  // for good
  static bool owns(std::uint64_t id) { return (id & kMine) != 0; }

 private:
  static constexpr std::uint64_t kMine = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kListener = kMine | 1, kTimer = kMine | 2,
                                 kFirstGuest = kMine | 16;

  struct Guest {  // a socket that has not proven anything yet, ours or a visitor's
    base::UniqueFd socket;
    DataHandshake handshake;
    base::Bytes input;
    int rank = -1;  // to which we connect; -1: a visitor
    int channel = 0;
    std::size_t endpoint = 0;
    bool connected = false;
    base::Clock::time_point since;
  };
  struct Dialing {
    base::Clock::time_point begun, next_try;
    std::size_t next_endpoint = 0;
    std::map<std::size_t, std::string> reasons;  // by endpoint
  };
  using Guests = std::map<std::uint64_t, Guest>;

  void accept_all();
  void on_timer();
  void try_next(int rank, Dialing& dialing);
  void dial(int rank, int channel, std::size_t endpoint);
  void add_guest(Guest guest, std::uint32_t events);
  void step(Guests::iterator guest);
  std::string read_and_answer(Guest& guest);
  void settle(Guests::iterator guest);
  void drop(Guests::iterator guest, std::string reason);
  void set_timer();

  const int epoll_;
  base::UniqueFd listener_, timer_;
  const std::vector<rendezvous::PeerInfo>& peers_;
  const int rank_;
  const rendezvous::Secret secret_;
  const std::uint64_t plan_;
  Events events_;
  Guests guests_;
  std::uint64_t next_id_ = kFirstGuest;
  std::map<int, Dialing> dialing_;
};

// The same on all ranks of one epoch, different from every other epoch's.
std::uint64_t plan_hash(const std::vector<rendezvous::PeerInfo>& peers);

}  // namespace hv::runtime
