// Reducescatter of one chunk, which holds a piece for every rank: everyone puts in the pieces for
// the others and reduces its own straight to its output. Between hosts, a rank's piece is reduced
// on each host by the rank that stands for it there, and sent to it.
#include "runtime/collective/host_tree.h"
#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// Purpose: one chunk as this rank sees it. Thread: the lane's. Owner: the coroutine's frame.
struct Scatter {
  Stage& stage;
  const Running& running;
  const Chunk& chunk;
  const Kernel& loops = kernel(running.work.dtype, running.work.reduce);
  const Range range = chunk.range;
  const Topology& topology = stage.topology;

  bool by_rank() const { return running.plan.cross == CrossAlgorithm::kByRank; }
  // Which rank of a host reduces (or gathers) there what is for `rank`; on its own host, itself.
  int stand_in(int host, int rank) const {
    const auto& there = topology.hosts[host];
    return there[static_cast<std::size_t>(topology.local_rank_of[rank]) % there.size()];
  }
  // Sums that a host sends for one element.
  std::size_t parts_of(int host) const { return by_rank() ? topology.hosts[host].size() : 1; }

  std::size_t bytes_for(int rank) const {
    std::size_t bytes = 0;
    for_each_in(running.work.blocks, range, [&](Range part, int owner) {
      if (owner == rank) bytes += part.size();
    });
    return bytes;
  }
  const std::byte* slot(int local_rank, Range part) const {
    return stage.slots.data(local_rank, chunk.number) + (part.begin - range.begin);
  }
  // Where this rank's own input of a part lies; a part is one stretch of it.
  const std::byte* own(Range part) const {
    const std::byte* found = nullptr;
    for_each_in(running.work.inputs, part, [&](Range, const std::byte* data) { found = data; });
    return found;
  }
  void fold(std::byte* to, Range part, bool is_own) const {
    auto& sources = stage.sources;
    for (int r = 0; r < stage.slots.size(); ++r) sources[r] = slot(r, part);
    if (is_own) sources[stage.slots.rank()] = own(part);
    loops.fold(to, sources.data(), stage.slots.size(), part.size() / loops.size, running.local);
  }
  // What this host has for `rank`, one part after the other; returns its end.
  std::byte* gather(std::byte* to, int rank) const {
    const bool is_own = rank == topology.rank;
    for (int r = 0; by_rank() && r < stage.slots.size(); ++r) {
      for_each_in(running.work.blocks, range, [&](Range part, int owner) {
        if (owner != rank) return;
        const bool mine = is_own && r == stage.slots.rank();
        std::memcpy(to, mine ? own(part) : slot(r, part), part.size());
        to += part.size();
      });
    }
    if (by_rank()) return to;
    for_each_in(running.work.blocks, range, [&](Range part, int owner) {
      if (owner != rank) return;
      fold(to, part, is_own);
      to += part.size();
    });
    return to;
  }
  // From all hosts' parts, `bytes` each, to this rank's output.
  void finish(const std::vector<const std::byte*>& of_host, std::size_t bytes) const {
    std::vector<const std::byte*> parts;
    if (by_rank()) {
      for (int rank : topology.ranks) {
        parts.push_back(of_host[topology.host_of[rank]] +
                        bytes * static_cast<std::size_t>(topology.local_rank_of[rank]));
      }
    } else {
      parts = of_host;
    }
    std::size_t at = 0;
    for_each_in(running.work.outputs, range, [&](Range part, std::byte* to) {
      for (std::size_t i = 0; i < parts.size(); ++i) stage.sources[i] = parts[i] + at;
      const auto count = part.size() / loops.size;
      const int sources = static_cast<int>(parts.size());
      if (by_rank()) {
        loops.fold(to, stage.sources.data(), sources, count, running.final);
      } else {
        combine_hosts(loops, to, stage.sources.data(), sources, count, running.final);
      }
      at += part.size();
    });
  }
};

Task scatter_hosts(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  const Scatter s{stage, running, chunk};
  const Topology& topology = stage.topology;
  const int me = topology.rank;
  const std::size_t mine = s.bytes_for(me);
  std::size_t scratch = mine * static_cast<std::size_t>(topology.size);
  for (int rank : topology.ranks) {
    const bool remote = topology.host_of[rank] != stage.host();
    if (remote && s.stand_in(stage.host(), rank) == me) {
      scratch += s.bytes_for(rank) * s.parts_of(stage.host());
    }
  }
  std::byte* memory = stage.scratch_for(chunk, scratch);
  std::vector<const std::byte*> of_host(static_cast<std::size_t>(stage.hosts()));
  Pending got, sent;
  for (int host = 0; host < stage.hosts(); ++host) {
    const std::size_t bytes = mine * s.parts_of(host);
    of_host[host] = memory;
    if (host != stage.host() && bytes > 0) {
      stage.transport->recv(s.stand_in(host, me), stage.tag_of(chunk, 0), {memory, bytes}, got);
    } else if (host == stage.host()) {
      s.gather(memory, me);
    }
    memory += bytes;
  }
  for (int rank : topology.ranks) {
    if (topology.host_of[rank] == stage.host() || s.stand_in(stage.host(), rank) != me) continue;
    std::byte* end = s.gather(memory, rank);
    const auto bytes = static_cast<std::size_t>(end - memory);
    if (bytes > 0) stage.transport->send(rank, stage.tag_of(chunk, 0), {memory, bytes}, sent);
    memory = end;
  }
  co_await finished(strand, got);
  s.finish(of_host, mine);
  co_await finished(strand, sent);
}

}  // namespace

Task run_reducescatter(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  const Work& work = running.work;
  co_await until(strand, [&] { return slots.free(chunk.number); });
  std::byte* own_slot = slots.data(slots.rank(), chunk.number);
  for_each_in(work.blocks, chunk.range, [&](Range part, int rank) {
    if (rank == stage.topology.rank) return;
    pack(work.inputs, part, own_slot + (part.begin - chunk.range.begin));
  });
  note_packed(running);
  slots.publish_arrival(chunk.number, running.signature);
  int next = 0;
  co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
  if (stage.hosts() > 1) {
    co_await scatter_hosts(strand, stage, running, chunk);
  } else {
    const Scatter s{stage, running, chunk};
    for_each_in(work.outputs, chunk.range,
                [&](Range part, std::byte* to) { s.fold(to, part, true); });
  }
  slots.publish_done(chunk.number);
}

}  // namespace hv::runtime
