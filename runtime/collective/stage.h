// Stage: where the chunks of one lane play: the host's slots, the links to the other hosts, and
// scratch memory. Chunk: one piece of one collective; its task is what each kind of collective does
// with it.
//
// Thread: the lane's. Owner: the lane. Failure: through the strand.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/select.h"
#include "runtime/collective/slots.h"
#include "runtime/collective/task.h"
#include "runtime/collective/work.h"
#include "runtime/topology.h"

namespace hv::runtime {

struct Chunk {
  std::uint64_t number = 0;  // on this lane, equal on all ranks
  Range range;               // of the work's concatenation
};

struct Stage {
  Topology topology;
  Sizes sizes;
  Slots slots;
  std::shared_ptr<Transport> transport;  // null on one host
  Tag tag = 0;                           // of this lane
  bool blocking = false;                 // each rank finishes a call before it starts the next
  std::vector<std::vector<std::byte>> scratch;  // per slot, grows as needed
  std::vector<const void*> sources;             // of the fold in progress
  std::deque<base::Error> errors;               // that strands point to

  int hosts() const { return sizes.hosts; }
  int host() const { return topology.my_host(); }
  // This rank's counterpart on a host.
  int counterpart(int host) const { return topology.hosts[host][topology.local_rank]; }
  std::byte* scratch_for(const Chunk& chunk, std::size_t bytes) {
    auto& memory = scratch[slots.slot_of(chunk.number)];
    if (memory.size() < bytes) memory.resize(bytes);
    return memory.data();
  }
  Tag tag_of(const Chunk& chunk, int step) const {
    return tag | (chunk.number & 0xffffffffu) << 8 | static_cast<Tag>(step);
  }
};

// A collective in progress, with what choose_plan made of it.
struct Running {
  Work work;
  Plan plan;
  Scale local, final;  // of the fold within a host, of the result
  std::uint64_t signature = 0;
  std::uint64_t first_chunk = 0;
};

inline void note_packed(const Running& running) {
  if (running.work.moments != nullptr) running.work.moments->packed();
}
inline void note_reduced(const Running& running) {
  if (running.work.moments != nullptr) running.work.moments->reduced();
}

// Slice `index` of `slices` of a range: whole cache lines, the last ones may be shorter or empty.
inline Range slice_of(Range range, int index, int slices) {
  constexpr std::size_t kLine = 64;
  const auto n = static_cast<std::size_t>(slices);
  const std::size_t each = ((range.size() + n - 1) / n + kLine - 1) / kLine * kLine;
  return {std::min(range.begin + index * each, range.end),
          std::min(range.begin + (index + 1) * each, range.end)};
}

Task run_allreduce(Strand& strand, Stage& stage, const Running& running, Chunk chunk);
// The whole of an allreduce at once; clears `in_place` and does nothing if the tensors do not lie
// at one place in shared memory.
Task run_in_place(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                  bool& in_place);
Task run_broadcast(Strand& strand, Stage& stage, const Running& running, Chunk chunk);
Task run_allgather(Strand& strand, Stage& stage, const Running& running, Chunk chunk);
Task run_reducescatter(Strand& strand, Stage& stage, const Running& running, Chunk chunk);
Task run_alltoall(Strand& strand, Stage& stage, const Running& running, Chunk chunk);
Task run_barrier(Strand& strand, Stage& stage, const Running& running, Chunk chunk);

// Between the hosts: combines `bytes` at `data`, this host's part of a result, with those of the
// counterparts on all other hosts, in place.
Task run_exchange(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                  std::byte* data, std::size_t bytes);

// The same without reducing anything within a host first: every rank's input, as its slot holds it,
// in order of rank. `slice`: of the chunk; the result is put into this rank's slot.
Task exchange_by_rank(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                      Range slice);

// Steps that several kinds share.
void pack(const std::vector<Stretch>& from, Range range, std::byte* to);
void unpack(const std::byte* from, Range range, const std::vector<Stretch>& to);
std::uint64_t signature_of(const Work& work);
std::string describe_signature(std::uint64_t signature);
// For until(): rank `r` has arrived for this chunk; a different signature ends the strand.
bool arrived(Strand& strand, Stage& stage, const Running& running, const Chunk& chunk, int r);
// All ranks from `next` on have arrived; `next` counts those that were seen.
bool all_arrived(Strand& strand, Stage& stage, const Running& running, const Chunk& chunk,
                 int& next);

}  // namespace hv::runtime
