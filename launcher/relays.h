// Relays: above `fanout` hosts the links of agents go through other agents, as a tree. This decides
// which through which, and how each gets there: an agent says hello over a link of its own, waits
// until its relay listens, and says hello again through it. Who cannot keeps its own link.
//
// Thread: any one; pure. Owner: the supervisor, which carries out the steps. Failure: a relay that
// is gone or cannot listen keeps nobody waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher {

// For each host the one that relays its link; none for the first `fanout`. Levels of fanout,
// fanout², … hosts, each spread evenly over the one before; a relay comes before whom it serves.
// fanout 0: nobody is relayed.
std::vector<std::optional<std::uint32_t>> make_relay_tree(std::size_t hosts, std::uint32_t fanout);

class Relays {
 public:
  struct Step {
    enum class Kind {
      kSettle,  // the link of this host is the one that it keeps
      kOpen,    // this host is to listen for others
      kMove,    // this host is to use `relay`, at `endpoints`
    };
    Kind kind;
    std::uint32_t host = 0;
    std::uint32_t relay = 0;
    std::vector<rendezvous::Endpoint> endpoints = {};
  };
  using Steps = std::vector<Step>;

  Relays(std::size_t hosts, std::uint32_t fanout);

  Steps on_hello(std::uint32_t host, bool may_move);  // over a link of its own
  Steps on_moved(std::uint32_t host);                 // hello through its relay
  Steps on_stays(std::uint32_t host);                 // it did not reach its relay
  Steps on_opened(std::uint32_t host, std::vector<rendezvous::Endpoint> endpoints);
  Steps on_gone(std::uint32_t host);

  bool is_moving(std::uint32_t host) const { return hosts_[host].state == State::kMoving; }
  // What its link goes through, or went; none: nothing.
  std::optional<std::uint32_t> relay_of(std::uint32_t host) const;

 private:
  enum class State { kAway, kWaiting, kMoving, kSettled };
  struct Host {
    std::optional<std::uint32_t> relay;  // by the tree
    std::vector<std::uint32_t> children;
    State state = State::kAway;
    bool relayed = false;
    // Where others reach it, once it has answered or gone; empty: nowhere.
    std::optional<std::vector<rendezvous::Endpoint>> endpoints;
  };
  Steps settle(std::uint32_t host);
  Steps send_on(std::uint32_t host);

  std::vector<Host> hosts_;
};

}  // namespace hv::launcher
