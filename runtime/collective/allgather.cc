// Allgather of one chunk of the concatenated result: everyone puts in what it has of it, owners
// carry it to the other hosts, everyone takes it out.
#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// The owner (local rank, the same on both hosts) that carries a rank's blocks between hosts.
int carrier_of(const Stage& stage, const Running& running, int rank) {
  return stage.topology.local_rank_of[rank] % running.plan.owners;
}

// Calls each(part, rank) for what `host` gives of this chunk through the carrier `owner`.
template <class Each>
void for_each_carried(const Stage& stage, const Running& running, Range range, int host, int owner,
                      Each each) {
  for_each_in(running.work.blocks, range, [&](Range part, int rank) {
    if (stage.topology.host_of[rank] == host && carrier_of(stage, running, rank) == owner) {
      each(part, rank);
    }
  });
}

std::size_t carried_bytes(const Stage& stage, const Running& running, Range range, int host,
                          int owner) {
  std::size_t bytes = 0;
  for_each_carried(stage, running, range, host, owner,
                   [&](Range part, int) { bytes += part.size(); });
  return bytes;
}

// As owner: sends what the ranks of this host give to its counterparts, and puts what comes from
// them into its slot. One message per pair of hosts, packed.
Task carry(Strand& strand, Stage& stage, const Running& running, Chunk chunk, Pending& sent) {
  auto& slots = stage.slots;
  const int me = slots.rank();
  const Range range = chunk.range;
  std::byte* outgoing = stage.scratch_for(chunk, 2 * range.size());
  std::byte* incoming = outgoing + range.size();

  Pending got;
  std::size_t at = 0;
  for (int host = 0; host < stage.hosts(); ++host) {
    if (host == stage.host()) continue;
    const std::size_t bytes = carried_bytes(stage, running, range, host, me);
    if (bytes == 0) continue;
    stage.transport->recv(stage.counterpart(host), stage.tag_of(chunk, 0), {incoming + at, bytes},
                          got);
    at += bytes;
  }
  std::size_t packed = 0;
  for_each_carried(stage, running, range, stage.host(), me, [&](Range part, int rank) {
    const std::byte* from = slots.data(stage.topology.local_rank_of[rank], chunk.number);
    std::memcpy(outgoing + packed, from + (part.begin - range.begin), part.size());
    packed += part.size();
  });
  for (int host = 0; packed > 0 && host < stage.hosts(); ++host) {
    if (host == stage.host()) continue;
    stage.transport->send(stage.counterpart(host), stage.tag_of(chunk, 0), {outgoing, packed},
                          sent);
  }
  co_await finished(strand, got);
  const std::byte* next = incoming;
  for (int host = 0; host < stage.hosts(); ++host) {
    if (host == stage.host()) continue;
    for_each_carried(stage, running, range, host, me, [&](Range part, int) {
      std::memcpy(slots.data(me, chunk.number) + (part.begin - range.begin), next, part.size());
      next += part.size();
    });
  }
}

}  // namespace

Task run_allgather(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  const Work& work = running.work;
  const int me = slots.rank();
  const Range range = chunk.range;

  co_await until(strand, [&] { return slots.free(chunk.number); });
  pack(work.inputs, range, slots.data(me, chunk.number));
  slots.publish_arrival(chunk.number, running.signature);

  int next = 0;
  co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
  Pending sent;
  if (stage.hosts() > 1 && me < running.plan.owners) {
    co_await carry(strand, stage, running, chunk, sent);
    slots.publish_reduced(chunk.number);
  }
  for (int owner = 0; stage.hosts() > 1 && owner < running.plan.owners; ++owner) {
    co_await until(strand, [&] { return slots.reduced(owner, chunk.number); });
  }
  for_each_in(work.blocks, range, [&](Range part, int rank) {
    const bool here = stage.topology.host_of[rank] == stage.host();
    const int holder = here ? stage.topology.local_rank_of[rank] : carrier_of(stage, running, rank);
    unpack(slots.data(holder, chunk.number) + (part.begin - range.begin), part, work.outputs);
  });
  co_await finished(strand, sent);
  slots.publish_done(chunk.number);
}

}  // namespace hv::runtime
