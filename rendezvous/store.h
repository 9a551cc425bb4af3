// Store, the seam where the processes of one epoch meet: a rank's view. Kinds: client_store (over
// the agent's Unix socket or TCP) and local_store (one process: size 1, and threads of a test). The
// conformance suite runs over both. Its brain on the server is StoreState. Keys and values live for
// one epoch; who uses them in several generations puts the generation into the key.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

// Thread safe. Every call ends at its deadline with kTimeout naming the key or the missing ranks,
// or at once with the epoch's first cause when the epoch has failed.
class Store {
 public:
  virtual ~Store() = default;
  virtual base::Result<void> set(std::string_view key, base::ByteSpan value) = 0;
  virtual base::Result<base::Bytes> get(std::string_view key, base::Deadline deadline) = 0;
  virtual base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;

  // Hands in this rank's addresses; returns when all ranks of the epoch have. The n-th join of each
  // rank goes into the n-th table (PeerTable::generation), so init → shutdown → init in one process
  // or in the next program of the same rank meets a fresh one.
  virtual base::Result<PeerTable> join(const PeerInfo& self, base::Deadline deadline) = 0;

  // `on_failure` runs once, on a thread of the store's own, when the epoch fails or the connection
  // is lost; at once if that has happened already. It may call the store but not destroy it.
  virtual void watch(std::function<void(const Notice&)> on_failure) = 0;

  // Ends the epoch for everybody with this cause (first one wins).
  virtual void report_fault(const base::Error& error) = 0;

  // This rank waits for others: the job's owner finds out for whom, and says so.
  virtual void report_stall(const RankStall& stall) = 0;
  // Opens the job's timeline, or completes it; returns when that is done. kUnavailable where nobody
  // writes timelines.
  virtual base::Result<void> ask_timeline(TimelineRequest request, base::Deadline deadline) = 0;

  // A clean goodbye, told to the server before it returns: the end of this connection is no fault
  // afterwards.
  virtual void leave() = 0;
};

}  // namespace hv::rendezvous
