// The server's brain: who has joined, the keys and who waits for them, epochs, failure.
//
// Thread: its owner's. Owns values only; frames of ranks and the time come in, frames to send and
// what the job should know come out. A bad frame drops its client; all else is answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "rendezvous/frame.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

class StoreState {
 public:
  using Client = std::uint64_t;  // one connection of one rank, numbered by the owner from 1
  using Time = base::Clock::time_point;
  static constexpr Client kEveryone = 0;

  struct Refused {
    RankHello hello;
    base::Error why;
  };
  struct Joined {
    std::int32_t rank;
    std::uint32_t generation;
  };
  struct Left {
    std::int32_t rank;
  };
  struct Fault {  // the epoch has failed, with it or with an earlier cause
    std::int32_t rank;
    base::Error why;
  };
  struct Lost {  // the connection closed without a goodbye
    std::int32_t rank;
  };
  struct Stalled {
    std::int32_t rank;
    RankStall stall;
  };
  struct TimelineAsked {  // the owner answers
    Client client;
    std::int32_t rank;
    TimelineRequest request;
  };
  using Event = std::variant<RankHello, Refused, Joined, Left, Fault, Lost, Stalled, TimelineAsked>;

  struct Send {
    Client to = kEveryone;
    Frame frame;
  };
  struct Effects {
    std::vector<Send> sends;
    std::vector<Event> events;        // after the sends
    std::optional<base::Error> drop;  // close this client, after the sends
  };

  // Larger requests are refused, so that no rank can make the launcher run out of memory.
  struct Caps {
    std::size_t key_bytes = 4 << 10;
    std::size_t value_bytes = 16 << 20;
    std::size_t total_bytes = 128 << 20;
  };

  explicit StoreState(std::string build_id) : StoreState(std::move(build_id), Caps{}) {}
  StoreState(std::string build_id, Caps caps) : build_id_(std::move(build_id)), caps_(caps) {}

  // Forgets keys and joins; for the ranks of the epoch before it has failed with kAborted.
  Effects begin_epoch(std::uint32_t epoch, int size);
  // Everything that waits, now or later in this epoch, gets this cause. The first one stays.
  Effects fail_epoch(std::int32_t failed_rank, const base::Error& cause);

  Effects on_frame(Client client, const Frame& frame, Time now);
  // To a request that the owner answers; error code 0: done.
  static Send answer(Client client, std::uint64_t id, const WireError& error);
  Effects on_closed(Client client);  // no effect for clients that never said hello
  void forget(Client client);        // the same without an event: its host is gone
  Effects on_time(Time now);
  Time next_time() const;  // when on_time has something to do

 private:
  enum class Place : std::uint8_t { kAbsent, kConnected, kLeft, kLost };
  struct Rank {
    Place place = Place::kAbsent;
    std::int32_t pid = 0;
    std::optional<PeerInfo> arrived;  // for the next table
  };
  struct Member {
    std::uint32_t epoch;
    std::int32_t rank;
  };
  struct Waiter {  // a StoreGet, or (without key) a Join
    Client client;
    std::uint64_t id;
    std::optional<std::string> key;
    std::chrono::milliseconds waits;
  };

  Effects on_hello(Client client, const RankHello& hello);
  Effects on_set(Client client, const StoreSet& message);
  Effects on_get(Client client, const StoreGet& message, Time now);
  Effects on_add(Client client, const StoreAdd& message);
  Effects on_join(Client client, const Join& message, Time now);
  Effects on_leave(Client client, const Leave& message);
  Effects on_rank_fault(Client client, const RankFault& message);
  Effects on_rank_stall(Client client, const RankStall& message);
  Effects on_timeline(Client client, const TimelineRequest& message);

  std::optional<base::Error> why_refused(const RankHello& hello) const;
  std::optional<base::Error> why_not_served(Client client, std::uint32_t epoch) const;
  base::Error stale(std::uint32_t epoch) const;
  base::Result<void> store(const std::string& key, base::Bytes value, Effects& effects);
  void wait(Waiter waiter, std::uint32_t wait_ms, Time now);
  void stop_waiting(Client client);
  Frame make_table();
  base::Error timeout_of(const Waiter& waiter) const;
  std::optional<std::int32_t> end_membership(Client client, Place place);

  const std::string build_id_;
  const Caps caps_;
  std::uint32_t epoch_ = 0;
  std::optional<Notice> failure_;
  std::vector<Rank> ranks_;
  std::size_t arrived_ = 0;       // ranks with `arrived`
  std::uint32_t generation_ = 0;  // complete tables
  std::unordered_map<Client, Member> members_;
  std::unordered_map<std::string, base::Bytes> values_;
  std::size_t total_bytes_ = 0;          // of keys and values
  std::multimap<Time, Waiter> waiters_;  // by the end of their patience
};

}  // namespace hv::rendezvous
