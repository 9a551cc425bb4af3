#include "runtime/collective/lane.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hv::runtime {
namespace {

Sizes sizes_of(const Topology& topology) {
  Sizes sizes{topology.size, static_cast<int>(topology.hosts.size()), topology.size, 1};
  for (const auto& ranks : topology.hosts) {
    const int n = static_cast<int>(ranks.size());
    sizes.smallest_host = std::min(sizes.smallest_host, n);
    sizes.largest_host = std::max(sizes.largest_host, n);
  }
  return sizes;
}

// `ranks` are those of this host.
Slots::Options slots_for(const DataPlane& plane, const std::vector<int>& ranks,
                         const Lane::Options& options) {
  Slots::Options slots{"lane/" + std::to_string(options.id),
                       {},
                       plane.tuning.slots,
                       plane.tuning.slot_bytes,
                       options.wake};
  for (int rank : ranks) slots.members.push_back(plane.topology.group_rank_of[rank]);
  return slots;
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Splits a scale between the fold within a host and the result across hosts. The sum of a host must
// not overflow float16 on its way to an average, so it travels divided by the power of two above
// the number of ranks, which is exact.
void split_scale(Running& running, int ranks, int hosts, bool by_rank) {
  const Work& work = running.work;
  const Scale all = make_scale(work.dtype, work.reduce, ranks, work.prescale, work.postscale);
  running.local = all;
  running.final = Scale{};
  if (hosts == 1) return;
  if (by_rank) {  // nothing is reduced within a host alone
    running.final = all;
    return;
  }
  double shrink = 1.0;
  if (is_half(work.dtype) && work.reduce == ReduceOp::kAverage) {
    shrink = 1.0 / static_cast<double>(std::bit_ceil(static_cast<unsigned>(ranks)));
  }
  running.local = Scale{all.pre, shrink, 1};
  running.final = Scale{1.0, all.post / shrink, all.divisor};
}

}  // namespace

base::Result<std::unique_ptr<Lane>> Lane::open(const DataPlane& plane, const Options& options,
                                               base::Deadline deadline) {
  auto slots =
      Slots::open(plane.local, slots_for(plane, plane.topology.local_ranks(), options), deadline);
  if (!slots) return base::fail(slots.error());
  return std::unique_ptr<Lane>(new Lane(plane, options, std::move(*slots)));
}

base::Result<void> Lane::absent(const DataPlane& world, const std::vector<int>& ranks,
                                const Options& options, base::Deadline deadline) {
  std::vector<int> here;
  const Topology& topology = world.topology;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(here),
               [&](int rank) { return topology.host_of[rank] == topology.my_host(); });
  if (here.empty()) return {};
  auto slots = Slots::open(world.local, slots_for(world, here, options), deadline);
  if (!slots) return base::fail(slots.error());
  return {};
}

Lane::Lane(const DataPlane& plane, const Options& options, Slots slots)
    : plane_(plane),
      stage_{plane.topology,
             sizes_of(plane.topology),
             std::move(slots),
             plane.topology.hosts.size() > 1 ? plane.transport : nullptr,
             kDataPlaneTag | static_cast<Tag>(options.id) << 40,
             options.blocking,
             {},
             {},
             {}} {
  stage_.scratch.resize(stage_.slots.count());
  stage_.sources.resize(static_cast<std::size_t>(stage_.sizes.ranks));
  for (int i = 0; i < stage_.slots.count(); ++i) flights_.emplace_back(frames_);
}

Lane::~Lane() {
  // Messages in flight point into the frames.
  if (!idle()) fail({base::Code::kShutdown, "the data plane has been shut down", {}, 0});
}

Work Lane::take_work() {
  if (retired_.empty()) return {};
  return std::move(retired_.back()->work);
}

void Lane::start(Work work, Done done) {
  std::unique_ptr<Collective> collective;
  if (retired_.empty()) {
    collective = std::make_unique<Collective>();
  } else {
    collective = std::move(retired_.back());
    retired_.pop_back();
  }
  collective->work = std::move(work);
  const Work& what = collective->work;
  collective->plan =
      choose_plan(what.kind, what.bytes, what.may_be_in_place, stage_.sizes, plane_.tuning);
  collective->in_place = collective->plan.local == LocalAlgorithm::kInPlace;
  collective->signature = signature_of(collective->work);
  collective->done = std::move(done);
  collective->started = 0;
  collective->chunks_left = 0;
  collective->all_started = false;
  split_scale(*collective, stage_.sizes.ranks, stage_.sizes.hosts,
              collective->plan.cross == CrossAlgorithm::kByRank);
  last_plan_ = collective->plan;
  queue_.push_back(std::move(collective));
  if (failure_) return;  // poll() ends it
  start_chunks();
}

Plan Lane::plan_for(OpKind kind, std::size_t bytes) const {
  return choose_plan(kind, bytes, false, stage_.sizes, plane_.tuning);
}

// Chunks start in order, as long as the slot of the next one has landed.
bool Lane::start_chunks() {
  bool any = false;
  for (std::size_t i = 0; i < queue_.size() && !failure_; ++i) {
    auto& collective = *queue_[i];
    while (!collective.all_started) {
      auto& flight = flights_[stage_.slots.slot_of(next_chunk_)];
      if (flight.collective) return any;
      launch(flight, collective);
      any = true;
    }
  }
  return any;
}

void Lane::launch(Flight& flight, Collective& collective) {
  const std::size_t bytes = collective.work.bytes;
  if (collective.started == 0) {
    collective.first_chunk = next_chunk_;
    if (Moments* moments = collective.work.moments) {
      moments->started_ns = now_ns();
      moments->algorithm = name_of(collective.plan, stage_.sizes);
    }
  }
  const std::size_t end = collective.in_place
                              ? bytes
                              : std::min(bytes, collective.started + collective.plan.chunk_bytes);
  const Chunk chunk{next_chunk_++, {collective.started, end}};
  collective.started = end;
  collective.all_started = end == bytes;
  collective.chunks_left += 1;
  flight.collective = &collective;
  flight.task = make_task(flight, chunk);
  flight.task.start();
}

Task Lane::make_task(Flight& flight, Chunk chunk) {
  Collective& collective = *flight.collective;
  if (collective.in_place) {
    return run_in_place(flight.strand, stage_, collective, chunk, collective.in_place);
  }
  switch (collective.work.kind) {
    case OpKind::kAllreduce:
      return run_allreduce(flight.strand, stage_, collective, chunk);
    case OpKind::kBroadcast:
      return run_broadcast(flight.strand, stage_, collective, chunk);
    case OpKind::kAllgather:
      return run_allgather(flight.strand, stage_, collective, chunk);
    case OpKind::kBarrier:
      return run_barrier(flight.strand, stage_, collective, chunk);
    case OpKind::kReducescatter:
      return run_reducescatter(flight.strand, stage_, collective, chunk);
    case OpKind::kAlltoall:
      return run_alltoall(flight.strand, stage_, collective, chunk);
    case OpKind::kJoin:
    case OpKind::kAddSet:
    case OpKind::kRemoveSet:
      break;
  }
  std::terminate();
}

bool Lane::poll() {
  if (queue_.empty()) return false;
  if (const auto* why = plane_.local->failure(); why && !failure_) failure_ = *why;
  bool moved = false;
  const auto slots = static_cast<std::uint64_t>(stage_.slots.count());
  const std::uint64_t oldest = next_chunk_ < slots ? 0 : next_chunk_ - slots;
  for (std::uint64_t n = oldest; n < next_chunk_ && !failure_; ++n) {
    auto& flight = flights_[stage_.slots.slot_of(n)];
    if (!flight.collective) continue;
    while (!flight.task.done() && flight.strand.poll()) moved = true;
    if (flight.strand.error) {
      failure_ = *flight.strand.error;
    } else if (flight.task.done()) {
      land(flight);
      moved = true;
    }
  }
  if (failure_) {
    fail(*failure_);
    return true;
  }
  return start_chunks() || moved;
}

void Lane::land(Flight& flight) {
  auto& collective = *std::exchange(flight.collective, nullptr);
  flight.task = {};
  collective.chunks_left -= 1;
  if (collective.plan.local == LocalAlgorithm::kInPlace && !collective.in_place) {
    // The tensors lie elsewhere: once more, by copying.
    collective.plan.local = last_plan_.local = LocalAlgorithm::kSlices;
    collective.started = 0;
    collective.all_started = false;
    return;
  }
  if (collective.all_started && collective.chunks_left == 0) retire(collective, nullptr);
}

void Lane::retire(Collective& collective, const base::Error* error) {
  auto it = std::find_if(queue_.begin(), queue_.end(),
                         [&](const auto& c) { return c.get() == &collective; });
  auto owned = std::move(*it);
  queue_.erase(it);
  const Done done = std::exchange(owned->done, nullptr);
  owned->work.clear();
  retired_.push_back(std::move(owned));
  if (error) {
    done(base::fail(*error));
  } else {
    done({});
  }
}

void Lane::fail(const base::Error& why) {
  if (!failure_) failure_ = why;
  if (plane_.transport) {
    // Messages under way refer to tensors and frames: end them first.
    plane_.transport->abort(*failure_);
    plane_.transport->progress(base::Deadline::at(base::Clock::time_point::min()));
    plane_.local->abort(*failure_);  // nobody of this host can count on this rank either
  }
  for (auto& flight : flights_) {
    flight.task = {};
    flight.collective = nullptr;
  }
  while (!queue_.empty()) retire(*queue_.front(), &*failure_);
}

}  // namespace hv::runtime
