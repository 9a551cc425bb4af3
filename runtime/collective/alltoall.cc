// Alltoall of one chunk of every rank's own concatenation: through the slots within a host,
// straight from memory to memory between hosts.
#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

bool is_here(const Stage& stage, int rank) { return stage.topology.host_of[rank] == stage.host(); }

// Several pieces for one rank go as messages of one tag, which arrive in order.
void exchange_pieces(Stage& stage, const Running& running, const Chunk& chunk, Pending& pending) {
  const Work& work = running.work;
  const Tag tag = stage.tag_of(chunk, 0);
  for (std::size_t i = 0; i < work.arrivals.size(); ++i) {
    const int from = stage.topology.ranks[i];
    if (is_here(stage, from)) continue;
    for_each_in(work.arrivals[i], chunk.range, [&](Range part, std::byte* to) {
      stage.transport->recv(from, tag, {to, part.size()}, pending);
    });
  }
  for_each_in(work.blocks, chunk.range, [&](Range block, int to) {
    if (is_here(stage, to)) return;
    for_each_in(work.inputs, block, [&](Range part, const std::byte* data) {
      stage.transport->send(to, tag, {data, part.size()}, pending);
    });
  });
}

void pack_pieces(Stage& stage, const Running& running, const Chunk& chunk) {
  const Work& work = running.work;
  std::byte* slot = stage.slots.data(stage.slots.rank(), chunk.number);
  for_each_in(work.blocks, chunk.range, [&](Range part, int to) {
    if (!is_here(stage, to) || to == stage.topology.rank) return;
    pack(work.inputs, part, slot + (part.begin - chunk.range.begin));
  });
}

}  // namespace

Task run_alltoall(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  const Work& work = running.work;
  const Topology& topology = stage.topology;
  Pending pending;
  if (stage.hosts() > 1) exchange_pieces(stage, running, chunk, pending);
  co_await until(strand, [&] { return slots.free(chunk.number); });
  pack_pieces(stage, running, chunk);
  note_packed(running);
  slots.publish_arrival(chunk.number, running.signature);
  for_each_in(work.arrivals[static_cast<std::size_t>(topology.index())], chunk.range,
              [&](Range part, std::byte* to) { pack(work.inputs, part, to); });
  for (int r = 0; r < slots.size(); ++r) {
    if (r == slots.rank()) continue;
    co_await until(strand, [&] { return arrived(strand, stage, running, chunk, r); });
    const int from = topology.index_of(topology.local_ranks()[r]);
    unpack(slots.data(r, chunk.number), chunk.range, work.arrivals[static_cast<std::size_t>(from)]);
  }
  if (stage.blocking) slots.note_all_done_below(running.first_chunk);
  co_await finished(strand, pending);
  slots.publish_done(chunk.number);
}

}  // namespace hv::runtime
