// LocalGroup: the ranks of one host: shared segments and doorbells.
//
// Kinds: memfd_local_group (processes: sealed memfds passed over an abstract Unix socket, peer
// checked by SO_PEERCRED and secret) and inproc_local_group (threads of a test). Thread: the baton
// holder's, except ring() and segment(), which any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

// Shared memory mapped here: one part per local rank, each `part_bytes` long, page aligned, zeroed,
// to be first touched by its owner. Unmapped with the last copy.
class Segment {
 public:
  Segment() = default;
  Segment(std::shared_ptr<std::byte> base, std::size_t part_bytes, int parts)
      : base_(std::move(base)), part_bytes_(part_bytes), parts_(parts) {}
  std::span<std::byte> part(int local_rank) const {
    return {base_.get() + static_cast<std::size_t>(local_rank) * part_bytes_, part_bytes_};
  }
  std::span<std::byte> all() const { return {base_.get(), part_bytes_ * parts_}; }
  std::size_t part_bytes() const { return part_bytes_; }
  int parts() const { return parts_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  std::shared_ptr<std::byte> base_;
  std::size_t part_bytes_ = 0;
  int parts_ = 0;
};

class LocalGroup {
 public:
  virtual ~LocalGroup() = default;
  virtual int rank() const = 0;  // local rank
  virtual int size() const = 0;
  // The segment of this key, made by the lowest local rank that is asked to (all local ranks ask
  // for it once, with the same size, in any order relative to other keys). Blocks until it is
  // there, the deadline at most; kMismatch names both sizes where they differ.
  virtual base::Result<Segment> segment(std::string_view key, std::size_t part_bytes,
                                        base::Deadline deadline) = 0;

  // Doorbells: an eventfd per local rank, known to all. Whoever is about to sleep publishes that in
  // shared memory, looks once more, and sleeps on its own doorbell (poll, with other descriptors);
  // ring() costs a system call only if that rank sleeps. No wake-up is lost as long as what the
  // sleeper looks at is stored (before ring) and loaded (after about_to_sleep) in the sequentially
  // consistent order.
  virtual void ring(int local_rank) = 0;
  virtual int doorbell() const = 0;
  virtual void about_to_sleep() = 0;
  virtual void woke_up() = 0;  // also empties the doorbell

  // More ranks than CPUs that they may run on together: whoever waits yields at once.
  virtual bool crowded() const = 0;
  // Why every wait must end: the reason given to abort(), or kPeerLost when a local rank is gone
  // without a goodbye. Null while all is well. Cheap; looked at in every round of a wait.
  virtual const base::Error* failure() const = 0;
  virtual void abort(const base::Error& why) = 0;  // from any thread, the first reason stays
  // For whoever has waited for long, before each sleep of a bounded time: a system call that finds
  // losses which nobody here could be told of. about_to_sleep() includes it.
  virtual void look_for_losses() = 0;
};

}  // namespace hv::runtime
