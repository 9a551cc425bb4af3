// Slots: what the ranks of a host share for one lane: per rank a few slots of data, each with flags
// on cache lines of their own. A chunk uses the same slot on all ranks.
//
// Thread: the lane's. Owner: the lane. Flags are generations (chunk number + 1) that only grow, so
// nothing is ever reset and no barrier separates two chunks: a slot is used again when everyone has
// published kDone for its last chunk. Failure: waits are the caller's, see LocalGroup::failure().
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "runtime/transport/local_group.h"

namespace hv::runtime {

class Slots {
 public:
  static constexpr std::size_t kTinyBytes = 40;

  // Written by its owner only. Tiny inputs travel in the line of the flag itself.
  struct alignas(64) Arrival {
    std::atomic<std::uint64_t> generation{0};
    std::uint64_t signature = 0;  // of the collective; must agree
    std::uint64_t place = 0;      // of the tensor in shared memory, see Work
    std::byte tiny[kTinyBytes]{};
  };
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> reduced{0}, done{0};
  };
  // 128: the lines of a pair are fetched together.
  struct Flags {
    alignas(128) Arrival arrival;
    alignas(128) Progress progress;
  };

  // How a rank that has waited for long is woken: by the group's doorbell (the engine sleeps there,
  // on other things too), or by a futex in the segment (a thread that waits for nothing else).
  enum class Wake : std::uint8_t { kDoorbell, kFutex };

  struct Options {
    std::string key;           // equal on all ranks of the host
    std::vector<int> members;  // local ranks of the group that share them, ascending
    int slots = 1;
    std::size_t slot_bytes = 0;
    Wake wake = Wake::kDoorbell;
  };
  // Collective over the whole group; who is not a member gets slots of rank -1, of no use.
  static base::Result<Slots> open(std::shared_ptr<LocalGroup> group, const Options& options,
                                  base::Deadline deadline);

  int rank() const { return rank_; }  // among the members
  int size() const { return size_; }
  int count() const { return slots_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  int slot_of(std::uint64_t chunk) const {
    return static_cast<int>(chunk % static_cast<std::uint64_t>(slots_));
  }

  std::byte* data(int rank, std::uint64_t chunk) const {
    return bases_[rank] + data_offset_ + slot_bytes_ * slot_of(chunk);
  }
  Arrival& arrival(int rank, std::uint64_t chunk) const { return flags(rank, chunk).arrival; }

  // Nobody reads any more what the slot of this chunk last held.
  bool free(std::uint64_t chunk);
  bool arrived(int rank, std::uint64_t chunk) const {
    return at_least(arrival(rank, chunk).generation, chunk + 1);
  }
  bool reduced(int rank, std::uint64_t chunk) const {
    return at_least(flags(rank, chunk).progress.reduced, chunk + 1);
  }
  void publish_arrival(std::uint64_t chunk, std::uint64_t signature, std::uint64_t place = 0);
  void publish_reduced(std::uint64_t chunk);
  void publish_done(std::uint64_t chunk);
  // Everyone has finished all chunks below `chunk`; saves looking at their flags.
  void note_all_done_below(std::uint64_t chunk) {
    if (chunk > done_below_) done_below_ = chunk;
  }

  // Wake::kFutex: sleeps until a peer publishes, `time` at most. `recheck` runs after the intention
  // to sleep is known to the peers; true: don't sleep.
  template <class Recheck>
  void sleep(std::chrono::microseconds time, Recheck recheck) {
    announce_sleep();
    if (!recheck()) wait_announced(time);
    end_sleep();
  }

 private:
  struct alignas(128) Sleeper {
    std::atomic<std::uint32_t> asleep{0};
  };

  Flags& flags(int rank, std::uint64_t chunk) const {
    return reinterpret_cast<Flags*>(bases_[rank] + sizeof(Sleeper))[slot_of(chunk)];
  }
  Sleeper& sleeper(int rank) const { return *reinterpret_cast<Sleeper*>(bases_[rank]); }
  static bool at_least(const std::atomic<std::uint64_t>& flag, std::uint64_t value) {
    return flag.load(std::memory_order_seq_cst) >= value;
  }
  void wake_peers();
  void announce_sleep();
  void wait_announced(std::chrono::microseconds time);
  void end_sleep();

  std::shared_ptr<LocalGroup> group_;
  Segment segment_;
  std::vector<int> members_;
  std::vector<std::byte*> bases_;
  std::size_t data_offset_ = 0, slot_bytes_ = 0;
  int rank_ = 0, size_ = 1, slots_ = 1;
  Wake wake_ = Wake::kDoorbell;
  std::uint64_t done_below_ = 0;
};

}  // namespace hv::runtime
