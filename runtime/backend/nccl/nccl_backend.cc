#include "runtime/backend/nccl/nccl_backend.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "runtime/handle.h"

namespace hv::runtime::nccl {
namespace {

using base::Clock;
using base::Millis;
using base::Result;

constexpr Millis kLookEvery{1};  // at NCCL's word about peers, and at the clock
constexpr std::size_t kLeastBuffer = std::size_t{1} << 20;

std::string title(const Batch& batch) {
  const std::string first =
      std::string(to_string(batch.kind)) + " '" + batch.ops.front().name + "'";
  const std::size_t others = batch.ops.size() - 1;
  return others == 0 ? first : first + " and " + std::to_string(others) + " more";
}

}  // namespace

NcclBackend::NcclBackend(std::shared_ptr<Device> device, std::shared_ptr<const NcclApi> api,
                         GpuOptions options)
    : device_(std::move(device)), api_(std::move(api)), options_(std::move(options)) {}

Result<std::unique_ptr<NcclBackend>> NcclBackend::make(std::shared_ptr<Device> device,
                                                       std::shared_ptr<const NcclApi> api,
                                                       GpuOptions options) {
  auto backend =
      std::make_unique<NcclBackend>(std::move(device), std::move(api), std::move(options));
  if (auto made = backend->make_buffer(); !made) return base::fail(made.error());
  return backend;
}

// Memory that NCCL gives can be registered, so that it is not copied once more on the way.
Result<void> NcclBackend::make_buffer() {
  buffer_bytes_ = std::max(options_.buffer_bytes, kLeastBuffer) / kPlace * kPlace;
  const bool asks = api_->MemAlloc && api_->MemFree && api_->CommRegister;
  void* memory = nullptr;
  const Device::Current current(*device_);
  if (asks && api_->MemAlloc(&memory, buffer_bytes_) == kNcclSuccess) {
    can_register_ = true;
    buffer_ = std::shared_ptr<void>(memory, [device = device_, api = api_](void* given) {
      const Device::Current on(*device);
      (void)api->MemFree(given);
    });
    return {};
  }
  auto allocated = device_->allocate(buffer_bytes_);
  if (!allocated) return base::fail(allocated.error());
  buffer_ = std::move(*allocated);
  return {};
}

bool NcclBackend::can_run(const Batch& batch) const {
  return !is_reduction(batch.kind) || reduction_of(batch, api_->version).has_value();
}

Communicator& NcclBackend::communicator_of(const Batch& batch) {
  auto& communicator = communicators_[batch.set];
  if (!communicator) {
    const Communicator::Parts parts{device_,       api_,          &options_,
                                    buffer_.get(), buffer_bytes_, can_register_};
    communicator = std::make_unique<Communicator>(parts, batch.set, *batch.ranks);
  }
  return *communicator;
}

void NcclBackend::start(Batch batch, Done done) {
  if (failure_ && !aborting_) return done(base::fail(*failure_));
  Flight& flight = flights_.emplace_back();
  flight.batch = std::move(batch);
  flight.done = std::move(done);
  flight.since = Clock::now();
  if (failure_) return;  // ends with the others
  flight.communicator = &communicator_of(flight.batch);
  if (auto moved = advance(); !moved) fail(moved.error());
}

// ---- onto the stream -------------------------------------------------------------------------

Result<bool> NcclBackend::advance() {
  bool moved = false;
  while (on_stream_ < flights_.size()) {
    auto placed = put_on_stream(flights_[on_stream_]);
    if (!placed) return base::fail(placed.error());
    if (!*placed) break;
    ++on_stream_;
    moved = true;
  }
  return moved;
}

// False: something is not yet ready; called again later, it goes on.
Result<bool> NcclBackend::put_on_stream(Flight& flight) {
  Communicator& communicator = *flight.communicator;
  auto ready = communicator.ready();
  if (!ready || !*ready) return ready;
  if (!flight.steps) {
    const PlanOptions plan{static_cast<std::byte*>(buffer_.get()), buffer_bytes_,
                           options_.compression};
    flight.steps = make_steps(flight.batch, communicator.ranks(), communicator.index(), plan);
    if (auto ordered = order_behind_callers(flight); !ordered) return base::fail(ordered.error());
  }
  const Device::Current current(*device_);
  for (; flight.next < flight.steps->size(); ++flight.next) {
    const Step& step = (*flight.steps)[flight.next];
    if (!flight.issued) {
      if (auto issued = issue(step, communicator); !issued) return base::fail(issued.error());
      flight.issued = true;
    }
    auto settled = communicator.settled();
    if (!settled || !*settled) return settled;
    if (auto ok = move(step, step.unpack, true); !ok) return base::fail(ok.error());
    flight.issued = false;
  }
  auto point = device_->record(device_->stream());
  if (!point) return base::fail(point.error());
  flight.point = std::move(*point);
  for (const Op& op : flight.batch.ops) {
    if (op.handle) op.handle->set_on_stream(flight.point);
  }
  return true;
}

Result<void> NcclBackend::order_behind_callers(const Flight& flight) {
  std::set<GpuPoint*> points;
  for (const Op& op : flight.batch.ops) {
    if (!op.ready || !points.insert(op.ready.get()).second) continue;
    if (auto held = op.ready->hold_back(device_->stream()); !held) return held;
  }
  return {};
}

Result<void> NcclBackend::issue(const Step& step, Communicator& communicator) {
  if (auto packed = move(step, step.pack, false); !packed) return packed;
  if (step.calls.empty()) return {};
  auto begun = communicator.checked(api_->GroupStart(), "ncclGroupStart");
  if (!begun) return begun;
  Result<void> first;
  for (const Call& one : step.calls) {
    if (first) first = call(one, communicator);
  }
  auto ended = communicator.checked(api_->GroupEnd(), "ncclGroupEnd");
  return first ? ended : first;
}

Result<void> NcclBackend::call(const Call& c, Communicator& communicator) {
  using Kind = Call::Kind;
  const Comm comm = communicator.comm();
  void* stream = device_->stream();
  switch (c.kind) {
    case Kind::kAllReduce:
      return communicator.checked(api_->AllReduce(c.in, c.out, c.count, c.type, c.op, comm, stream),
                                  "ncclAllReduce");
    case Kind::kAllGather:
      return communicator.checked(api_->AllGather(c.in, c.out, c.count, c.type, comm, stream),
                                  "ncclAllGather");
    case Kind::kReduceScatter:
      return communicator.checked(
          api_->ReduceScatter(c.in, c.out, c.count, c.type, c.op, comm, stream),
          "ncclReduceScatter");
    case Kind::kBroadcast:
      return communicator.checked(
          api_->Broadcast(c.in, c.out, c.count, c.type, c.peer, comm, stream), "ncclBroadcast");
    case Kind::kReduce:
      return communicator.checked(
          api_->Reduce(c.in, c.out, c.count, c.type, c.op, c.peer, comm, stream), "ncclReduce");
    case Kind::kSend:
      return communicator.checked(api_->Send(c.in, c.count, c.type, c.peer, comm, stream),
                                  "ncclSend");
    case Kind::kRecv:
      return communicator.checked(api_->Recv(c.out, c.count, c.type, c.peer, comm, stream),
                                  "ncclRecv");
  }
  return {};
}

// All slices, in as few launches as their number allows.
Result<void> NcclBackend::move(const Step& step, const std::vector<Slice>& slices, bool unpack) {
  const std::size_t per_block = kBlockBytes / step.element;
  for (std::size_t first = 0; first < slices.size(); first += kMaxPieces) {
    PackArgs args;
    args.buffer = reinterpret_cast<unsigned long long>(step.base);
    args.scale = unpack ? step.postscale : step.prescale;
    args.pieces = static_cast<unsigned>(std::min<std::size_t>(slices.size() - first, kMaxPieces));
    args.unpack = unpack ? 1 : 0;
    unsigned blocks = 0;
    for (unsigned i = 0; i < args.pieces; ++i) {
      const Slice& slice = slices[first + i];
      args.piece[i] = {reinterpret_cast<unsigned long long>(slice.tensor), slice.count,
                       static_cast<unsigned>(slice.offset / kPlace), blocks};
      blocks += static_cast<unsigned>((slice.count + per_block - 1) / per_block);
    }
    if (auto launched = device_->launch(step.kernel, args, blocks); !launched) return launched;
  }
  return {};
}

// ---- watching --------------------------------------------------------------------------------

bool NcclBackend::progress() {
  if (aborted_ && !failure_) {
    std::lock_guard lock(abort_mutex_);
    fail(*abort_cause_);
  }
  if (failure_) return finish_failing();
  if (flights_.empty()) return false;
  auto placed = advance();
  if (!placed) return fail(placed.error()), true;
  auto landed = land();
  if (!landed) return fail(landed.error()), true;
  if (auto fine = watch(); !fine) return fail(fine.error()), true;
  return *placed || *landed;
}

Result<bool> NcclBackend::land() {
  bool moved = false;
  while (on_stream_ > 0) {
    auto reached = flights_.front().point->reached();
    if (!reached) return base::fail(reached.error());
    if (!*reached) break;
    finish_first({});
    moved = true;
  }
  return moved;
}

void NcclBackend::finish_first(Result<void> result) {
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  if (on_stream_ > 0) --on_stream_;
  flight.done(std::move(result));
}

Result<void> NcclBackend::watch() {
  const auto now = Clock::now();
  if (flights_.empty() || now - looked_ < kLookEvery) return {};
  looked_ = now;
  for (auto& [set, communicator] : communicators_) {
    if (communicator->comm() == nullptr) continue;
    if (auto fine = communicator->settled(); !fine) return base::fail(fine.error());
  }
  const Flight& first = flights_.front();
  if (options_.batch_limit.count() == 0 || now - first.since < options_.batch_limit) return {};
  return base::fail(base::Code::kTimeout,
                    title(first.batch) + ": not done on GPU " + std::to_string(device_->ordinal()) +
                        " after " + std::to_string(options_.batch_limit.count() / 1000) +
                        " s (HVRUN_GPU_TIMEOUT), " +
                        (first.point ? "although it is on the stream: a peer is stuck, or work "
                                       "before it on the stream is"
                                     : "and NCCL has not taken all of it"));
}

// ---- ending ----------------------------------------------------------------------------------

void NcclBackend::abort(const base::Error& why) {
  std::lock_guard lock(abort_mutex_);
  if (aborted_) return;
  abort_cause_ = why;
  aborted_ = true;
}

// One thread ends them, because any of these calls may hang, and nobody else may then.
std::shared_ptr<NcclBackend::Ending> NcclBackend::end(std::vector<Comm> comms, bool abort) const {
  auto ending = std::make_shared<Ending>();
  std::thread([ending, comms = std::move(comms), abort, device = device_, api = api_,
               buffer = buffer_] {
    const Device::Current current(*device);
    for (Comm comm : comms) {
      if (abort) {
        (void)api->CommAbort(comm);
      } else {
        NcclCode state = api->CommFinalize(comm);
        while (state == kNcclSuccess || state == kNcclInProgress) {
          if (api->CommGetAsyncError(comm, &state) != kNcclSuccess || state == kNcclSuccess) break;
          std::this_thread::sleep_for(Millis(1));
        }
        (void)api->CommDestroy(comm);
      }
    }
    // What was behind the calls on the stream still touches tensors.
    if (abort) (void)device->api().StreamSynchronize(device->stream());
    ending->over = true;
  }).detach();
  return ending;
}

bool NcclBackend::wait_for(const Ending& ending) const {
  const auto deadline = base::Deadline::after(options_.abort_limit);
  while (!ending.over && !deadline.passed()) std::this_thread::sleep_for(Millis(1));
  return ending.over;
}

void NcclBackend::fail(const base::Error& why) {
  if (failure_) return;
  failure_ = why;
  std::vector<Comm> comms;
  for (auto& [set, communicator] : communicators_) {
    if (Comm comm = communicator->take()) comms.push_back(comm);
  }
  if (flights_.empty() && comms.empty()) return;
  const bool polite = why.code == base::Code::kShutdown && flights_.empty();
  abort_deadline_ = base::Deadline::after(options_.abort_limit);
  aborting_ = end(std::move(comms), !polite);
}

// Tensors are given back when no kernel can touch them any more, or when that will not come.
bool NcclBackend::finish_failing() {
  if (!aborting_) return false;
  base::Error error = *failure_;
  if (!aborting_->over) {
    if (!abort_deadline_.passed()) return false;
    error.text += "; then NCCL or the GPU did not let go within " +
                  std::to_string(options_.abort_limit.count() / 1000.0).substr(0, 4) +
                  " s (HVRUN_GPU_ABORT_TIMEOUT), so that this process can not go on";
    if (options_.stuck) options_.stuck(error);
  }
  aborting_.reset();
  while (!flights_.empty()) finish_first(base::fail(error));
  return true;
}

void NcclBackend::forget(std::int32_t set) {
  const auto found = communicators_.find(set);
  if (found == communicators_.end()) return;
  if (Comm comm = found->second->take()) (void)wait_for(*end({comm}, false));
  communicators_.erase(found);
}

NcclBackend::~NcclBackend() {
  std::vector<Comm> comms;
  for (auto& [set, communicator] : communicators_) {
    if (Comm comm = communicator->take()) comms.push_back(comm);
  }
  if (!comms.empty()) aborting_ = end(std::move(comms), !flights_.empty());
  if (aborting_) (void)wait_for(*aborting_);
}

}  // namespace hv::runtime::nccl
