#include "runtime/collective/stage.h"

namespace hv::runtime {
namespace {

// Between hosts by empty messages, twice as far each step, so that after the last step everyone has
// heard, directly or not, of everyone.
Task meet_hosts(Strand& strand, Stage& stage, Chunk chunk) {
  const int hosts = stage.hosts();
  for (int distance = 1, step = 0; distance < hosts; distance *= 2, ++step) {
    Pending pending;
    const int to = (stage.host() + distance) % hosts;
    const int from = (stage.host() - distance + hosts) % hosts;
    stage.transport->recv(stage.counterpart(from), stage.tag_of(chunk, step), {}, pending);
    stage.transport->send(stage.counterpart(to), stage.tag_of(chunk, step), {}, pending);
    co_await finished(strand, pending);
  }
}

}  // namespace

Task run_barrier(Strand& strand, Stage& stage, const Running& running, Chunk chunk) {
  auto& slots = stage.slots;
  co_await until(strand, [&] { return slots.free(chunk.number); });
  slots.publish_arrival(chunk.number, running.signature);
  int next = 0;
  co_await until(strand, [&] { return all_arrived(strand, stage, running, chunk, next); });
  if (stage.hosts() > 1) {
    if (slots.rank() == 0) {
      co_await meet_hosts(strand, stage, chunk);
      slots.publish_reduced(chunk.number);
    }
    co_await until(strand, [&] { return slots.reduced(0, chunk.number); });
  }
  slots.publish_done(chunk.number);
}

}  // namespace hv::runtime
