#include "runtime/world.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "rendezvous/base/log.h"
#include "rendezvous/codec.h"
#include "runtime/raise.h"

namespace hv::runtime {

namespace {

// For the launcher to say so and end the process, which holds on to a device and cannot let go.
constexpr base::Millis kEndedByAgent{20000};
constexpr int kStuck = 75;

// An abort hangs in the driver or in NCCL: the job learns the first cause, and its agent ends this
// process. Where there is none, it ends by itself, after time to report.
void end_stuck_process(const std::shared_ptr<rendezvous::Store>& store, const base::Error& error) {
  base::log(base::LogLevel::kFatal, base::describe(error));
  if (store) store->report_fault(error);
  std::thread([] {
    std::this_thread::sleep_for(kEndedByAgent);
    std::_Exit(kStuck);
  }).detach();
}

}  // namespace

WorldImpl::WorldImpl(Parts parts)
    : plane_(parts.plane),
      sets_(plane_.topology.rank, plane_.topology.size),
      hosts_(std::move(parts.hosts)),
      knobs_(parts.knobs),
      generation_(parts.generation),
      device_(parts.device),
      server_(std::move(parts.server)),
      store_(std::move(parts.store)),
      process_(::getpid()) {}

base::Result<World> WorldImpl::make(Parts parts, base::Deadline deadline) {
  EngineParts engine;
  engine.backends = std::move(parts.backends);
  engine.recorder = std::move(parts.recorder);
  const auto sets = std::move(parts.process_sets);
  auto world = std::make_shared<WorldImpl>(std::move(parts));
  if (auto ok = world->start(std::move(engine), deadline); !ok) {
    world->ended_ = true;
    return base::fail(ok.error());
  }
  for (const auto& ranks : sets) {
    if (auto added = world->add_set(ranks); !added) return base::fail(added.error());
  }
  auto all = world->sets_.all_ranks();
  return World(std::move(world), std::move(all));
}

base::Result<void> WorldImpl::start(EngineParts parts, base::Deadline deadline) {
  auto links = make_negotiator_links(plane_, deadline);
  if (!links) return base::fail(links.error());
  parts.plane = plane_;
  parts.negotiator = std::make_unique<Negotiator>(
      topology(), std::move(*links),
      Coordinator::Options{static_cast<std::size_t>(knobs_.fusion_bytes),
                           static_cast<std::size_t>(knobs_.cache_names)});
  if (parts.backends.empty()) {
    auto host = make_host_backend(plane_, deadline);
    if (!host) return base::fail(host.error());
    parts.backends.push_back(std::move(*host));
  }
  parts.knobs = knobs_;
  // Nothing asks for it after the engine has been stopped, which the destructor does.
  parts.open_gpu = [this] { return open_gpu(knobs_.gpu_plugin, gpu_options()); };
  for (int rank = 0; rank < topology().size; ++rank) parts.who.push_back(who(rank));
  if (store_) {
    parts.report_fault = [store = std::weak_ptr(store_),
                          self = who(topology().rank)](base::Error error) {
      if (error.origin.empty()) error.origin = self;
      if (auto to = store.lock()) to->report_fault(error);
    };
    parts.report_stall = [store = std::weak_ptr(store_)](const rendezvous::RankStall& stall) {
      if (auto to = store.lock()) to->report_stall(stall);
    };
  }
  auto engine = Engine::start(std::move(parts));
  if (!engine) return base::fail(engine.error());
  engine_ = std::move(*engine);
  if (store_) {
    store_->watch([engine = std::weak_ptr(engine_)](const rendezvous::Notice& notice) {
      base::Error cause = rendezvous::from_wire(notice.cause);
      cause.code = base::Code::kPeerLost;
      if (auto to = engine.lock()) to->fail(cause);
    });
  }
  return {};
}

namespace {

// In a forked child: what it would close and say goodbye on is still its parent's.
template <class... T>
void keep_for_ever(T... things) {
  static auto& kept = *new std::vector<std::shared_ptr<void>>;  // never destroyed
  (kept.push_back(std::make_shared<T>(std::move(things))), ...);
}

}  // namespace

WorldImpl::~WorldImpl() {
  if (::getpid() != process_) {
    keep_for_ever(std::move(engine_), std::move(store_), std::move(server_), std::move(plane_));
    return;
  }
  if (ended_) return;
  if (std::uncaught_exceptions() > 0 && engine_->pending() > 0) {
    // An exception passes through this rank while others count on what it has submitted: waiting
    // for that could take for ever, and leaving politely would hide the fault.
    if (store_) {
      store_->report_fault({base::Code::kAborted,
                            "an exception ended the world with " +
                                std::to_string(engine_->pending()) + " operations pending",
                            who(topology().rank), 0});
    }
    engine_->stop();
    return;
  }
  shutdown();
}

void WorldImpl::ask_timeline(bool on, const std::string& path, bool mark_cycles) {
  std::shared_ptr<rendezvous::Store> store;
  {
    std::lock_guard lock(end_mutex_);
    store = store_;
  }
  if (!store) {
    raise({base::Code::kUnavailable,
           "a timeline is written by hvrun, and this process runs without it: start the program "
           "with hvrun -np N",
           {},
           0});
  }
  rendezvous::TimelineRequest request;
  request.on = on;
  request.mark_cycles = mark_cycles;
  if (on) {
    std::error_code none;
    request.path = std::filesystem::absolute(path, none).string();
  }
  const auto deadline = base::Deadline::after(std::chrono::seconds(10));
  if (auto done = store->ask_timeline(std::move(request), deadline); !done) raise(done.error());
}

void WorldImpl::shutdown() {
  std::lock_guard lock(end_mutex_);
  if (std::exchange(ended_, true)) return;
  engine_->leave();
  if (store_) store_->leave();
  engine_->stop();
  store_.reset();
  server_.reset();
}

// A communicator drives the engine, so it keeps it.
std::shared_ptr<CommunicatorImpl> WorldImpl::communicator() {
  struct Kept {
    std::shared_ptr<Engine> engine;
    std::shared_ptr<CommunicatorImpl> impl;
  };
  const auto deadline = base::Deadline::after(std::chrono::seconds(knobs_.start_timeout_s));
  auto impl = value_or_raise(make_communicator(plane_, communicators_++, *engine_, deadline));
  auto kept = std::make_shared<Kept>(Kept{engine_, impl});
  return {kept, impl.get()};
}

GpuOptions WorldImpl::gpu_options() const {
  const auto seconds = [](auto number) {
    return std::chrono::duration_cast<base::Millis>(std::chrono::duration<double>(number));
  };
  GpuOptions options;
  options.driver = knobs_.cuda_library;
  options.nccl = knobs_.nccl_library;
  options.device = device_;
  options.rank = topology().rank;
  options.local_rank = topology().local_rank;
  for (int rank = 0; rank < topology().size; ++rank) {
    options.who.push_back(who(rank));
    options.hosts.push_back(std::to_string(topology().host_of[rank]));
  }
  options.scope = "gpu/" + std::to_string(generation_);
  options.store = store_;
  options.buffer_bytes = static_cast<std::size_t>(knobs_.fusion_bytes);
  if (knobs_.gpu_compression != "none") options.compression = knobs_.gpu_compression;
  options.ranks_per_id = static_cast<int>(knobs_.nccl_ranks_per_id);
  options.start_limit = seconds(knobs_.start_timeout_s);
  options.batch_limit = seconds(knobs_.gpu_timeout_s);
  options.abort_limit = seconds(knobs_.gpu_abort_timeout_s);
  options.stuck = [store = std::weak_ptr(store_), self = who(topology().rank)](base::Error error) {
    if (error.origin.empty()) error.origin = self;
    end_stuck_process(store.lock(), error);
  };
  return options;
}

// Device tensors begin where their streams are now.
void WorldImpl::order(std::vector<Op>& ops) const {
  std::map<void*, std::shared_ptr<GpuPoint>> points;
  for (Op& op : ops) {
    if (op.input.device < 0 && op.output.device < 0) continue;
    auto ordered = gpu().and_then([&](Gpu* gpu) -> base::Result<void> {
      for (const TensorView* tensor : {&op.input, &op.output}) {
        if (tensor->data == nullptr) continue;
        if (auto ok = gpu->check(*tensor); !ok) return ok;
      }
      auto& point = points[op.input.stream];
      if (!point) {
        auto marked = gpu->mark(op.input.stream);
        if (!marked) return base::fail(marked.error());
        point = std::move(*marked);
      }
      op.ready = point;
      return {};
    });
    if (ordered) continue;
    base::Error error = ordered.error();
    error.text = std::string(to_string(op.kind)) + " '" + op.name + "': " + error.text;
    raise(error);
  }
}

std::string WorldImpl::who(int rank) const {
  return "rank " + std::to_string(rank) + " on " + hosts_[rank];
}

Handle WorldImpl::submit(Op op) {
  std::vector<Op> one;
  one.push_back(std::move(op));
  order(one);
  return Handle(value_or_raise(engine_->submit_group(std::move(one))));
}

// With HVRUN_DISABLE_GROUP_FUSION a group runs with its own tensors only, on all ranks alike.
Handle WorldImpl::submit_group(std::string_view name, std::vector<Op> ops) {
  if (knobs_.group_fusion_off) {
    const auto number = static_cast<std::uint32_t>(std::hash<std::string_view>()(name));
    for (Op& op : ops) op.group = number | 1;
  }
  order(ops);
  return Handle(value_or_raise(engine_->submit_group(std::move(ops))));
}

std::shared_ptr<HandleState> WorldImpl::make_handle() const {
  return std::make_shared<HandleState>(engine_, now_ns());
}

// ---- process sets ----------------------------------------------------------------------------

base::Result<std::int64_t> WorldImpl::agree_on(Op op) {
  op.name = "process set";
  auto handle = engine_->submit(std::move(op));
  if (!handle) return base::fail(handle.error());
  engine_->wait(**handle, base::Deadline::never());
  if ((*handle)->error()) return base::fail(*(*handle)->error());
  const auto& rows = (*handle)->rows();
  return rows.empty() ? 0 : rows.front();
}

base::Result<ProcessSets::Set> WorldImpl::add_set(const std::vector<int>& ranks) {
  auto sorted = sets_.check(ranks);
  if (!sorted) return base::fail(sorted.error());
  Op op;
  op.kind = OpKind::kAddSet;
  op.input.shape.assign(sorted->begin(), sorted->end());
  auto id = agree_on(std::move(op));
  if (!id) return base::fail(id.error());
  const auto set = static_cast<std::int32_t>(*id);
  const auto deadline = base::Deadline::after(std::chrono::seconds(knobs_.start_timeout_s));
  auto backend = make_host_backend(plane_, set, *sorted, deadline);
  if (!backend) return base::fail(backend.error());
  if (*backend) engine_->add_backend(set, *sorted, std::move(*backend));
  return sets_.add(set, std::move(*sorted));
}

base::Result<void> WorldImpl::remove_set(std::int32_t id) {
  if (id == 0) {
    return base::fail(base::Code::kInvalidArgument,
                      "remove_process_set: set 0 holds all ranks and stays");
  }
  if (!sets_.find(id)) {
    return base::fail(base::Code::kInvalidArgument, "remove_process_set: there is no set " +
                                                        std::to_string(id) + " in this world");
  }
  Op op;
  op.kind = OpKind::kRemoveSet;
  op.root = id;
  if (auto agreed = agree_on(std::move(op)); !agreed) return base::fail(agreed.error());
  engine_->remove_backend(id);
  sets_.remove(id);
  return {};
}

}  // namespace hv::runtime
