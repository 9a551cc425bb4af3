#include "runtime/backend/host_backend.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/collective/lane.h"

namespace hv::runtime {
namespace {

constexpr int kBackendLane = 0;  // raw communicators have lanes 1, 2, …

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data); }

void add_stretch(std::vector<Stretch>& stretches, std::size_t at, const TensorView& tensor) {
  const std::size_t bytes = tensor.bytes();
  if (bytes > 0) stretches.push_back({{at, at + bytes}, bytes_of(tensor)});
}

// Purpose: batches over shared memory and the transport, packed straight into shared slots. Thread:
// the baton holder's, except abort(). Owner: the lane with its slots. Failure: the first error ends
// all batches; abort() takes effect at the next progress().
class HostBackend final : public Backend {
 public:
  HostBackend(DataPlane plane, std::unique_ptr<Lane> lane)
      : plane_(std::move(plane)), lane_(std::move(lane)) {}

  bool can_run(const Batch& batch) const override {
    for (const auto& op : batch.ops) {
      if (op.input.device >= 0 || op.output.device >= 0) return false;
    }
    return batch.kind != OpKind::kAllreduce || check_reduction(batch.dtype, batch.reduce);
  }

  void start(Batch batch, Done done) override {
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
        add_allgather(work, batch);
        break;
      case OpKind::kBarrier:
        break;
    }
    if (work.bytes == 0 && batch.kind != OpKind::kBarrier) return done({});
    lane_->start(std::move(work), std::move(done));
  }

  bool progress() override {
    const bool moved =
        plane_.transport && plane_.transport->progress(base::Deadline::at(base::Clock::now()));
    return lane_->poll() || moved;
  }

  bool idle() const override { return lane_->idle(); }

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
      add_stretch(am_root ? work.inputs : work.outputs, work.bytes, op.output);
      work.bytes += op.output.bytes();
    }
  }
  void add_allgather(Work& work, const Batch& batch) const {
    for (std::size_t i = 0; i < batch.ops.size(); ++i) {
      const auto& op = batch.ops[i];
      const std::size_t begin = work.bytes;
      for (int rank = 0; rank < plane_.topology.size; ++rank) {
        const auto bytes = static_cast<std::size_t>(batch.counts[i][rank]) * size_of(batch.dtype);
        if (bytes == 0) continue;
        if (rank == plane_.topology.rank) add_stretch(work.inputs, work.bytes, op.input);
        work.blocks.push_back({{work.bytes, work.bytes + bytes}, rank});
        work.bytes += bytes;
      }
      if (work.bytes > begin) {
        work.outputs.push_back({{begin, work.bytes}, bytes_of(op.output)});
      }
    }
  }

  DataPlane plane_;
  std::unique_ptr<Lane> lane_;
};

}  // namespace

base::Result<std::unique_ptr<Backend>> make_host_backend(DataPlane plane, base::Deadline deadline) {
  auto lane = Lane::open(plane, kBackendLane, Slots::Wake::kDoorbell, false, deadline);
  if (!lane) return base::fail(lane.error());
  return std::make_unique<HostBackend>(std::move(plane), std::move(*lane));
}

}  // namespace hv::runtime
