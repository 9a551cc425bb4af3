// Broadcast of one chunk: through the root's slot on its own host; between hosts along a binomial
// tree that starts at the root's host; through the slots of the owners on every other host.
#include <bit>

#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// Sends a slice to the hosts below this one. `place`: number of this host counted from the root's.
void send_down(Stage& stage, const Chunk& chunk, int place, std::span<const std::byte> slice,
               Pending& sent) {
  const int hosts = stage.hosts();
  const int top = static_cast<int>(std::bit_ceil(static_cast<unsigned>(hosts)));
  const int lowest_bit = place == 0 ? top : place & -place;
  for (int step = lowest_bit / 2; step > 0; step /= 2) {
    if (place + step >= hosts) continue;
    const int to = (stage.host() + step) % hosts;
    stage.transport->send(stage.counterpart(to), stage.tag_of(chunk, 0), slice, sent);
  }
}

}  // namespace

Task run_broadcast(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  const Work& work = running.work;
  const int me = slots.rank();
  const int owners = running.plan.owners;
  const int hosts = stage.hosts();
  const int root_host = stage.topology.host_of[work.root];
  const int place = (stage.host() - root_host + hosts) % hosts;
  const bool am_root = stage.topology.rank == work.root;
  const Range mine = me < owners ? slice_of(chunk.range, me, owners) : Range{};

  co_await until(strand, [&] { return slots.free(chunk.number); });
  if (am_root) pack(work.inputs, chunk.range, slots.data(me, chunk.number));
  slots.publish_arrival(chunk.number, running.signature);

  Pending sent;
  if (place == 0) {
    const int root = stage.topology.local_rank_of[work.root];
    co_await until(strand, [&] { return arrived(strand, stage, running, chunk, root); });
    const std::byte* from = slots.data(root, chunk.number);
    if (hosts > 1 && !mine.empty()) {
      send_down(stage, chunk, 0, {from + (mine.begin - chunk.range.begin), mine.size()}, sent);
    }
    unpack(from, chunk.range, work.outputs);  // the root has none, in place
  } else {
    if (!mine.empty()) {
      const std::span<std::byte> slice{
          slots.data(me, chunk.number) + (mine.begin - chunk.range.begin), mine.size()};
      const int above = (root_host + place - (place & -place)) % hosts;
      Pending got;
      stage.transport->recv(stage.counterpart(above), stage.tag_of(chunk, 0), slice, got);
      co_await finished(strand, got);
      send_down(stage, chunk, place, slice, sent);
      slots.publish_reduced(chunk.number);
    }
    for (int owner = 0; owner < owners; ++owner) {
      const Range slice = slice_of(chunk.range, owner, owners);
      if (slice.empty()) break;
      co_await until(strand, [&] { return slots.reduced(owner, chunk.number); });
      unpack(slots.data(owner, chunk.number) + (slice.begin - chunk.range.begin), slice,
             work.outputs);
    }
  }
  co_await finished(strand, sent);
  slots.publish_done(chunk.number);
}

}  // namespace hv::runtime
