// The exchange between hosts whose results do not depend on which ranks share a host: every input
// travels, and is added in order of rank.
#include "runtime/collective/stage.h"

namespace hv::runtime {

Task exchange_by_rank(Strand& strand, Stage& stage, const Running& running, Chunk chunk,
                      Range slice) {
  const Kernel& loops = kernel(running.work.dtype, running.work.reduce);
  const Topology& topology = stage.topology;
  const int hosts = stage.hosts(), me = stage.host();
  const auto in_slot = [&](int local_rank, Range part) {
    return stage.slots.data(local_rank, chunk.number) + (part.begin - chunk.range.begin);
  };
  const auto share = [&](int host) { return slice_of(slice, host, hosts); };
  const Range mine = share(me);
  const auto ranks = static_cast<std::size_t>(topology.size);
  std::byte* scratch = stage.scratch_for(chunk, mine.size() * ranks);
  std::vector<const void*> inputs(ranks);
  Pending parts, results, sent;
  for (std::size_t i = 0; i < ranks; ++i) {
    const int rank = topology.ranks[i], host = topology.host_of[rank];
    if (host == me) {
      inputs[i] = in_slot(topology.local_rank_of[rank], mine);
      continue;
    }
    inputs[i] = scratch + mine.size() * i;
    if (mine.empty()) continue;
    // From one host in the order of its ranks.
    stage.transport->recv(stage.counterpart(host), stage.tag_of(chunk, 0),
                          {scratch + mine.size() * i, mine.size()}, parts);
  }
  for (int i = 1; i < hosts; ++i) {
    const int host = (me + i) % hosts;
    const Range theirs = share(host);
    if (theirs.empty()) continue;
    for (int r = 0; r < stage.slots.size(); ++r) {
      stage.transport->send(stage.counterpart(host), stage.tag_of(chunk, 0),
                            {in_slot(r, theirs), theirs.size()}, sent);
    }
    // It may arrive where a part is still lent for sending: who has made it has that part.
    stage.transport->recv(stage.counterpart(host), stage.tag_of(chunk, 1),
                          {in_slot(stage.slots.rank(), theirs), theirs.size()}, results);
  }
  co_await finished(strand, parts);
  std::byte* result = in_slot(stage.slots.rank(), mine);
  if (!mine.empty()) {
    loops.fold(result, inputs.data(), topology.size, mine.size() / loops.size, running.final);
  }
  for (int i = 1; i < hosts && !mine.empty(); ++i) {
    stage.transport->send(stage.counterpart((me + i) % hosts), stage.tag_of(chunk, 1),
                          {result, mine.size()}, sent);
  }
  co_await finished(strand, results);
  co_await finished(strand, sent);
}

}  // namespace hv::runtime
