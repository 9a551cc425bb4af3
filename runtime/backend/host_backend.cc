#include "runtime/backend/host_backend.h"

#include <algorithm>
#include <utility>

#include "runtime/backend/adasum.h"
#include "runtime/collective/lane.h"
#include "runtime/collective/pieces.h"

namespace hv::runtime {
namespace {

// Raw communicators have lanes 1, 2, …; process sets those from here on.
constexpr int kBackendLane = 0;
constexpr int kSetLanes = 1 << 20;
constexpr int kAdasumLanes = 1 << 21;

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data); }

void add_stretch(std::vector<Stretch>& stretches, std::size_t at, const TensorView& tensor) {
  const std::size_t bytes = tensor.bytes();
  if (bytes > 0) stretches.push_back({{at, at + bytes}, bytes_of(tensor)});
}

std::vector<std::size_t> bytes_of_counts(const Batch& batch, std::size_t op) {
  std::vector<std::size_t> bytes;
  for (std::int64_t count : batch.counts[op]) {
    bytes.push_back(static_cast<std::size_t>(count) * size_of(batch.dtype));
  }
  return bytes;
}

bool is_adasum(const Batch& batch) {
  return batch.kind == OpKind::kAllreduce && batch.reduce == ReduceOp::kAdasum;
}

// Purpose: batches over shared memory and the transport, packed straight into shared slots. Thread:
// the baton holder's, except abort(). Owner: the lane with its slots; the world's moves the
// transport too. Failure: the first error ends all batches; abort() takes effect at the next
// progress().
class HostBackend final : public Backend {
 public:
  // `set`: whose ranks the plane has; 0: all of the world.
  HostBackend(DataPlane plane, std::unique_ptr<Lane> lane, std::int32_t set)
      : plane_(std::move(plane)),
        lane_(std::move(lane)),
        adasum_(plane_, kAdasumLanes + set),
        of_world_(set == 0) {}

  bool can_run(const Batch& batch) const override {
    for (const auto& op : batch.ops) {
      if (op.input.device >= 0 || op.output.device >= 0) return false;
    }
    return !is_reduction(batch.kind) || check_reduction(batch.dtype, batch.reduce);
  }

  void start(Batch batch, Done done) override {
    if (is_adasum(batch)) return adasum_.start(std::move(batch), std::move(done));
    Work work = lane_->take_work();
    work.kind = batch.kind;
    work.dtype = batch.dtype;
    work.reduce = batch.reduce;
    work.prescale = batch.prescale;
    work.postscale = batch.postscale;
    work.root = batch.root;
    work.moments = batch.moments;
    switch (batch.kind) {
      case OpKind::kAllreduce:
        add_allreduce(work, batch);
        break;
      case OpKind::kBroadcast:
        add_broadcast(work, batch);
        break;
      case OpKind::kAllgather:
        add_allgathers(work, batch);
        break;
      case OpKind::kReducescatter:
        add_reducescatters(work, batch);
        break;
      case OpKind::kAlltoall:
        add_alltoall(work, batch);
        break;
      case OpKind::kBarrier:
      case OpKind::kJoin:
      case OpKind::kAddSet:
      case OpKind::kRemoveSet:
        break;
    }
    if (work.bytes == 0 && batch.kind != OpKind::kBarrier) return done({});
    lane_->start(std::move(work), std::move(done));
  }

  bool progress() override {
    const bool moved = of_world_ && plane_.transport &&
                       plane_.transport->progress(base::Deadline::at(base::Clock::now()));
    const bool adds = adasum_.progress();
    return lane_->poll() || moved || adds;
  }

  bool idle() const override { return lane_->idle() && adasum_.idle(); }

  void abort(const base::Error& why) override {
    plane_.local->abort(why);
    if (plane_.transport) plane_.transport->abort(why);
  }

 private:
  static void add_allreduce(Work& work, const Batch& batch) {
    for (const auto& op : batch.ops) {
      add_stretch(work.inputs, work.bytes, op.input);
      add_stretch(work.outputs, work.bytes, op.output);
      work.bytes += op.output.bytes();
    }
  }
  void add_broadcast(Work& work, const Batch& batch) const {
    const bool am_root = plane_.topology.rank == batch.root;
    for (const auto& op : batch.ops) {
      if (am_root) add_stretch(work.inputs, work.bytes, op.input);
      const bool in_place = am_root && op.input.data == op.output.data;
      if (!in_place) add_stretch(work.outputs, work.bytes, op.output);
      work.bytes += op.output.bytes();
    }
  }
  void add_allgathers(Work& work, const Batch& batch) const {
    for (std::size_t i = 0; i < batch.ops.size(); ++i) {
      const Op& op = batch.ops[i];
      add_allgather(work, plane_.topology, bytes_of_counts(batch, i), bytes_of(op.input),
                    bytes_of(op.output));
    }
  }
  void add_reducescatters(Work& work, const Batch& batch) const {
    std::size_t all = 0;
    for (const auto& op : batch.ops) all += op.input.bytes();
    const int ranks = plane_.topology.size;
    const std::size_t width = piece_width(lane_->plan_for(batch.kind, all), ranks);
    for (const auto& op : batch.ops) {
      const std::int64_t rows = op.input.shape[0];
      const std::size_t row = rows == 0 ? 0 : op.input.bytes() / static_cast<std::size_t>(rows);
      std::vector<std::size_t> blocks;
      for (int i = 0; i < ranks; ++i) {
        blocks.push_back(row * static_cast<std::size_t>(share_of_rows(rows, i, ranks)));
      }
      add_reducescatter(work, plane_.topology, width, blocks, bytes_of(op.input),
                        bytes_of(op.output));
    }
  }
  void add_alltoall(Work& work, const Batch& batch) const {
    const auto ranks = static_cast<std::size_t>(plane_.topology.size);
    const std::vector<std::size_t> blocks = bytes_of_counts(batch, 0);
    const Plan plan = lane_->plan_for(batch.kind, longest_of(blocks, ranks));
    const Op& op = batch.ops.front();
    fill_alltoall(work, plane_.topology, piece_width(plan, plane_.topology.size), blocks,
                  bytes_of(op.input), bytes_of(op.output));
  }

  DataPlane plane_;
  std::unique_ptr<Lane> lane_;
  Adasum adasum_;
  const bool of_world_;
};

}  // namespace

base::Result<std::unique_ptr<Backend>> make_host_backend(DataPlane plane, base::Deadline deadline) {
  auto lane = Lane::open(plane, {kBackendLane, Slots::Wake::kDoorbell, false}, deadline);
  if (!lane) return base::fail(lane.error());
  return std::make_unique<HostBackend>(std::move(plane), std::move(*lane), 0);
}

base::Result<std::unique_ptr<Backend>> make_host_backend(DataPlane plane, std::int32_t set,
                                                         const std::vector<int>& ranks,
                                                         base::Deadline deadline) {
  const Lane::Options options{kSetLanes + set, Slots::Wake::kDoorbell, false};
  if (!std::binary_search(ranks.begin(), ranks.end(), plane.topology.rank)) {
    auto shared = Lane::absent(plane, ranks, options, deadline);
    if (!shared) return base::fail(shared.error());
    return std::unique_ptr<Backend>();
  }
  plane.topology = subset(plane.topology, ranks);
  auto lane = Lane::open(plane, options, deadline);
  if (!lane) return base::fail(lane.error());
  return std::make_unique<HostBackend>(std::move(plane), std::move(*lane), set);
}

}  // namespace hv::runtime
