// From what is agreed on to what backends run, for the world and for each process set.
#include <algorithm>
#include <utility>

#include "rendezvous/base/text.h"
#include "runtime/engine.h"
#include "runtime/host_detour.h"
#include "runtime/stand_in.h"

namespace hv::runtime {
namespace {

// Batches of one set under way before rank 0 decides again: enough that one is packed while another
// moves, few enough that what is announced meanwhile runs together.
constexpr std::size_t kFlights = 2;

// Allgather, alltoall: how many rows each rank of the set gives to this one.
std::vector<std::int64_t> rows_for_us(const Negotiator::Agreed& agreed, std::size_t op,
                                      std::size_t ranks, std::size_t index) {
  const std::size_t each = rows_per_rank(agreed.batch.kind, ranks);
  std::vector<std::int64_t> rows;
  for (std::size_t from = 0; from < ranks; ++from) {
    rows.push_back(agreed.rows[(op * ranks + from) * each + (each > 1 ? index : 0)]);
  }
  return rows;
}

base::Result<void> not_supported(const Op& op, const char* where) {
  return base::fail(base::Code::kUnavailable, std::string(to_string(op.kind)) + " '" + op.name +
                                                  "': " + std::string(to_string(op.reduce)) +
                                                  " of " + std::string(to_string(op.input.dtype)) +
                                                  " " + where + " is not supported here");
}

}  // namespace

void Engine::start_agreed(Negotiator::Agreed agreed) {
  Batch& batch = agreed.batch;
  std::optional<base::Error> error = agreed.error;
  for (Op& op : batch.ops) {
    if (op.handle) continue;
    if (auto failed = fill_stand_in(op, [this] { return gpu(); }); failed && !error) error = failed;
  }
  std::vector<std::shared_ptr<HandleState>> handles;
  handles.reserve(batch.ops.size());
  for (const Op& op : batch.ops) handles.push_back(op.handle);
  const std::int64_t now = now_ns();
  for (const auto& handle : handles) recorder_.agreed(handle->record, batch.sequence, now);
  if (agreed.error) return finish(handles, error);
  auto flight = flights_.insert(flights_.end(), Flight{batch.set, std::move(handles), nullptr});
  if (recorder_.tracing()) flight->moments = std::make_unique<Moments>();
  batch.moments = flight->moments.get();
  if (!error) error = prepare_outputs(agreed);
  if (error) return on_done(flight, base::fail(*error));
  if (!has_data(batch.kind) && batch.kind != OpKind::kBarrier) return on_done(flight, {});
  Done done = [this, flight](base::Result<void> result) { on_done(flight, std::move(result)); };
  if (batch.on_device()) return start_on_device(std::move(batch), std::move(done));
  Backend* backend = backend_for(batch);
  if (backend) return backend->start(std::move(batch), std::move(done));
  done(not_supported(batch.ops.front(), "in host memory"));
}

void Engine::start_on_device(Batch batch, Done done) {
  const auto opened = gpu();
  if (!opened) return done(base::fail(opened.error()));
  Gpu& gpu = **opened;
  if (const auto ranks = set_ranks_.find(batch.set); ranks != set_ranks_.end()) {
    batch.ranks = &ranks->second;
  }
  if (gpu.backend().can_run(batch)) return gpu.backend().start(std::move(batch), std::move(done));
  Backend* host = backend_for(as_host_batch(batch));
  if (host) return detour_by_host(gpu, *host, std::move(batch), std::move(done));
  done(not_supported(batch.ops.front(), "on a GPU"));
}

std::optional<base::Error> Engine::prepare_outputs(Negotiator::Agreed& agreed) {
  Batch& batch = agreed.batch;
  const bool control = !has_data(batch.kind);
  if (control && !agreed.rows.empty()) batch.ops.front().handle->set_rows(agreed.rows);
  for (std::size_t i = 0; !control && i < batch.ops.size(); ++i) {
    Op& op = batch.ops[i];
    const bool gathers = rows_per_rank(op.kind, 1) > 0;
    if (!gathers && (op.kind != OpKind::kReducescatter || op.output.data)) continue;
    Shape shape = op.output.shape;  // of a reducescatter
    if (gathers) {
      const auto ranks = static_cast<std::size_t>(agreed.ranks);
      auto rows = rows_for_us(agreed, i, ranks, static_cast<std::size_t>(agreed.index));
      shape = op.input.shape;
      shape[0] = 0;
      for (std::int64_t count : rows) shape[0] += count;
      op.handle->set_rows(std::move(rows));
    }
    if (auto error = make_room(op, std::move(shape))) {
      error->text = std::string(to_string(op.kind)) + " '" + op.name + "': " + error->text;
      return error;
    }
    op.output = op.handle->output();
  }
  return std::nullopt;
}

// Where the input is.
std::optional<base::Error> Engine::make_room(Op& op, Shape shape) {
  if (op.input.device < 0) return op.handle->allocate_output(op.input.dtype, std::move(shape));
  TensorView output{nullptr, op.input.dtype, std::move(shape), op.input.device, op.input.stream};
  auto memory = gpu().and_then([&](Gpu* gpu) { return gpu->allocate(output.bytes()); });
  if (!memory) return memory.error();
  output.data = memory->get();
  op.handle->set_output(std::move(output), std::move(*memory));
  return std::nullopt;
}

// ---- backends --------------------------------------------------------------------------------

base::Result<Gpu*> Engine::gpu() {
  std::lock_guard lock(gpu_mutex_);
  if (!opened_gpu_) {
    opened_gpu_ = parts_.open_gpu ? parts_.open_gpu()
                                  : base::fail(base::Code::kUnavailable, "there is no GPU here");
    if (*opened_gpu_) {
      gpu_ = (*opened_gpu_)->get();
      if (failed_) gpu_.load()->backend().abort(failure());
    }
  }
  if (!*opened_gpu_) return base::fail(opened_gpu_->error());
  return gpu_.load();
}

Backend* Engine::backend_for(const Batch& batch) {
  if (batch.set != 0) {
    const auto found = set_backends_.find(batch.set);
    const bool can = found != set_backends_.end() && found->second->can_run(batch);
    return can ? found->second.get() : nullptr;
  }
  for (auto& backend : parts_.backends) {
    if (backend->can_run(batch)) return backend.get();
  }
  return nullptr;
}

bool Engine::progress_backends() {
  bool moved = false;
  for (auto& backend : parts_.backends) moved = backend->progress() || moved;
  for (auto& [set, backend] : set_backends_) moved = backend->progress() || moved;
  if (Gpu* gpu = gpu_; gpu && gpu->backend().progress()) {
    moved = true;
    baton_.wake();  // something may be on its stream
  }
  return moved;
}

// Sets do not wait for each other: rank 0 goes on deciding for those that have room.
const std::vector<std::int32_t>& Engine::busy_sets() {
  busy_.clear();
  if (flights_.size() < kFlights) return busy_;
  for (auto flight = flights_.begin(); flight != flights_.end(); ++flight) {
    const auto of_set = [&](const Flight& other) { return other.set == flight->set; };
    const bool is_first = std::find_if(flights_.begin(), flight, of_set) == flight;
    const auto count = std::count_if(flight, flights_.end(), of_set);
    if (is_first && static_cast<std::size_t>(count) >= kFlights) busy_.push_back(flight->set);
  }
  return busy_;
}

template <class Run>
void Engine::with_baton(Run run) {
  while (!baton_.try_take()) baton_.await([] { return false; }, base::Deadline::never());
  run();
  release();
}

void Engine::add_backend(std::int32_t set, const std::vector<int>& ranks,
                         std::unique_ptr<Backend> backend) {
  with_baton([&] {
    set_backends_[set] = std::move(backend);
    set_ranks_[set] = ranks;
    recorder_.set_members(static_cast<std::uint32_t>(set), base::ranges(ranks));
  });
}

void Engine::remove_backend(std::int32_t set) {
  Backend* backend = nullptr;
  with_baton([&] {
    if (auto found = set_backends_.find(set); found != set_backends_.end()) {
      backend = found->second.get();
    }
  });
  if (!backend) return;
  Gpu* const gpu = gpu_;
  const auto idle = [&] { return backend->idle() && (!gpu || gpu->backend().idle()); };
  (void)run([] {}, idle);  // a failure ends it too
  with_baton([&] {
    set_backends_.erase(set);
    set_ranks_.erase(set);
    if (gpu) gpu->forget(set);
    recorder_.set_members(static_cast<std::uint32_t>(set), {});
  });
}

}  // namespace hv::runtime
