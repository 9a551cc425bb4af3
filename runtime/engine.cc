#include "runtime/engine.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <array>
#include <numeric>
#include <utility>

#include "runtime/spinner.h"

namespace hv::runtime {
namespace {

using base::Deadline;
using base::Millis;

constexpr int kWaiterYields = 64;
constexpr int kThreadYields = 32;
constexpr Millis kGoodbye{2000};

StallWatch make_stall_watch(const Knobs& knobs) {
  const auto time = [](double seconds) {
    return std::chrono::duration_cast<StallWatch::Duration>(std::chrono::duration<double>(seconds));
  };
  return {!knobs.stall_check_off, time(knobs.stall_check_s), time(knobs.stall_shutdown_s)};
}

timespec time_left(Deadline deadline) {
  const auto left = std::max(deadline.time() - base::Clock::now(), base::Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
}

}  // namespace

base::Result<std::shared_ptr<Engine>> Engine::start(EngineParts parts) {
  auto engine = std::make_shared<Engine>(std::move(parts));
  engine->kick_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!engine->kick_) return base::fail(base::system_error("eventfd", errno));
  // Signals are for the program's own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  engine->thread_ = std::thread([raw = engine.get()] { raw->thread_main(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(engine->thread_.native_handle(), "hv-engine");
  if (auto bound = engine->bind_thread(); !bound) return base::fail(bound.error());
  return engine;
}

base::Result<void> Engine::bind_thread() {
  const Topology& topology = parts_.plane.topology;
  auto core =
      core_of(parts_.knobs, topology.local_rank, static_cast<int>(topology.local_ranks().size()));
  if (!core) return base::fail(core.error());
  if (*core < 0) return {};
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(*core), &cores);
  const int failed = ::pthread_setaffinity_np(thread_.native_handle(), sizeof cores, &cores);
  if (failed == 0) return {};
  return base::fail(base::system_error(
      "HVRUN_THREAD_AFFINITY is '" + parts_.knobs.affinity + "', and the thread of local rank " +
          std::to_string(topology.local_rank) + " cannot run on core " + std::to_string(*core),
      failed));
}

Engine::Engine(EngineParts parts)
    : parts_(std::move(parts)),
      recorder_(FlightRecorder::open(parts_.recorder)),
      stalls_(make_stall_watch(parts_.knobs)) {
  recorder_.enter(::getpid());
  auto& all = set_ranks_[0];
  all.resize(static_cast<std::size_t>(parts_.plane.topology.size));
  std::iota(all.begin(), all.end(), 0);
}

Engine::~Engine() { stop(); }

// ---- driving ---------------------------------------------------------------------------------

void Engine::thread_main() {
  const auto stopped = [this] { return stop_.load(); };
  while (!stop_) {
    while (!baton_.try_take()) {
      baton_.await(stopped, Deadline::never());
      if (stop_) return;
    }
    drive(stopped, Deadline::never(), Driver::kThread);
    const Deadline next = next_step();
    release();
    sleep(next, Driver::kThread);
  }
}

// Waits for `enough`, which other threads may make true, driving whenever the baton is free.
template <class Enough>
bool Engine::await(Enough enough, Deadline deadline) {
  while (!enough()) {
    if (baton_.try_take()) {
      drive(enough, deadline, Driver::kWaiter);
      release();
    } else {
      baton_.await(enough, deadline);
    }
    if (!deadline.is_never() && deadline.passed()) return enough();
  }
  return true;
}

// Holding the baton: until `enough`. The thread stops as soon as there is nothing to do: it sleeps
// without the baton, and a user thread that waits comes first.
template <class Enough>
void Engine::drive(Enough enough, Deadline deadline, Driver driver) {
  LocalGroup& local = *parts_.plane.local;
  const bool waiter = driver == Driver::kWaiter;
  const bool spin = waiter && !local.crowded();
  Spinner spinner(std::chrono::microseconds(spin ? parts_.knobs.spin_us : 0),
                  waiter ? kWaiterYields : kThreadYields);
  local.woke_up();
  while (!enough()) {
    if (round()) {
      spinner.restart();
      if (!deadline.is_never() && deadline.passed()) return;
      if (!waiter && baton_.wanted()) return;
      continue;
    }
    if (!waiter && baton_.wanted()) return;
    if (spinner.again()) continue;
    if (!waiter) return;
    local.about_to_sleep();
    if (!round() && !enough()) {
      if (deadline.passed()) return;
      sleep(deadline, Driver::kWaiter);
      spinner.restart();
    }
    local.woke_up();
  }
}

// Gives the baton back with the doorbell armed, so that news wakes the thread.
void Engine::release() {
  do {
    parts_.plane.local->about_to_sleep();
    const bool more = round();
    baton_.give();
    if (more) kick();
  } while (queued_ && baton_.try_take());
}

// After submit(): announces at once, in the caller's thread, unless somebody is at it already.
void Engine::nudge() {
  while (queued_) {
    if (!baton_.try_take()) {
      parts_.plane.local->ring(parts_.plane.local->rank());  // its holder may sleep
      return;
    }
    const bool more = round() && round();
    baton_.give();
    if (more) kick();
  }
}

void Engine::kick() {
  const std::uint64_t one = 1;
  (void)!::write(kick_.get(), &one, sizeof one);
}

void Engine::sleep(Deadline deadline, Driver driver) {
  std::array<pollfd, 3> fds{};
  nfds_t count = 0;
  fds[count++] = {parts_.plane.local->doorbell(), POLLIN, 0};
  if (parts_.plane.transport) fds[count++] = {parts_.plane.transport->wait_fd(), POLLIN, 0};
  if (driver == Driver::kThread) {
    fds[count++] = {kick_.get(), POLLIN, 0};
  } else {
    deadline =
        std::min(deadline, next_step(), [](Deadline a, Deadline b) { return a.time() < b.time(); });
  }
  const timespec time = time_left(deadline);
  ::ppoll(fds.data(), count, deadline.is_never() ? nullptr : &time, nullptr);
  if (driver == Driver::kThread && (fds[count - 1].revents & POLLIN)) {
    std::uint64_t kicks = 0;
    (void)!::read(kick_.get(), &kicks, sizeof kicks);
  }
}

bool Engine::round() {
  bool moved = take_queue();
  if (failed_) return settle_failure() || moved;
  auto progressed = parts_.negotiator->progress(busy_sets());
  if (progressed) {
    moved = moved || *progressed;
  } else {
    suspect(progressed.error());
  }
  drop_names(parts_.negotiator->take_forgotten());
  bool decided = false;
  while (auto agreed = parts_.negotiator->next()) {
    decided = true;
    start_agreed(std::move(*agreed));
  }
  if (decided && recorder_.tracing() && parts_.plane.topology.rank == 0) {
    recorder_.decided(now_ns());
  }
  if (!parts_.negotiator->left().empty()) moved = end_waiting() || moved;
  moved = progress_backends() || moved;
  // A rank that has shut down may go as it likes.
  const base::Error* lost = parts_.plane.local->failure();
  if (lost && parts_.negotiator->left().empty()) suspect(*lost);
  if (suspicion_) moved = follow_suspicion() || moved;
  return moved;
}

// ---- operations ------------------------------------------------------------------------------

base::Result<std::shared_ptr<HandleState>> Engine::submit(Op op) {
  std::vector<Op> one;
  one.push_back(std::move(op));
  return submit_group(std::move(one));
}

base::Result<std::shared_ptr<HandleState>> Engine::submit_group(std::vector<Op> ops) {
  std::vector<std::shared_ptr<HandleState>> handles;
  handles.reserve(ops.size());
  for (Op& op : ops) {
    if (!op.handle) op.handle = std::make_shared<HandleState>(weak_from_this(), now_ns());
    handles.push_back(op.handle);
  }
  {
    std::lock_guard lock(mutex_);
    if (failure_) return base::fail(*failure_);
    if (closed_) return base::fail(*closed_);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Name& name = names_.find(ops[i].set, ops[i].name);
      if (name.pending.exchange(true)) {
        while (i > 0) handles[--i]->name->pending = false;
        return base::fail(base::Code::kDuplicateName,
                          std::string(to_string(ops[i].kind)) + " '" + name.text +
                              "': an operation of this name is still pending on this rank; wait "
                              "for it first, or use another name");
      }
      handles[i]->name = &name;
    }
    for (Op& op : ops) {
      HandleState& handle = *op.handle;
      handle.record = recorder_.submitted(op, handle.submitted_ns());
      queue_.push_back({std::move(op), handle.name});
    }
    pending_.fetch_add(ops.size());
    queued_ = true;
  }
  nudge();
  if (handles.size() == 1) return handles.front();
  return std::make_shared<HandleState>(std::move(handles));
}

bool Engine::take_queue() {
  if (!queued_) return false;
  {
    std::lock_guard lock(mutex_);
    taken_.swap(queue_);
    queued_ = false;
  }
  for (Submitted& submitted : taken_) {
    parts_.negotiator->announce(*submitted.name, std::move(submitted.op));
  }
  taken_.clear();
  return true;
}

void Engine::on_done(std::list<Flight>::iterator flight, base::Result<void> result) {
  auto handles = std::move(flight->handles);
  const auto moments = std::move(flight->moments);
  flights_.erase(flight);
  if (result) return finish(handles, std::nullopt, moments.get());
  if (failed_) return finish(handles, failure());
  suspect(result.error());
  suspicion_->handles.insert(suspicion_->handles.end(), handles.begin(), handles.end());
}

void Engine::finish(const std::vector<std::shared_ptr<HandleState>>& handles,
                    const std::optional<base::Error>& error, const Moments* moments) {
  const std::int64_t now = now_ns();
  std::vector<Name*> nameless;
  std::size_t mine = 0;
  for (const auto& handle : handles) {
    Name* name = std::exchange(handle->name, nullptr);
    if (!name) continue;  // of another rank's operation, see stand_in.h
    ++mine;
    name->pending = false;  // first: who sees the handle done may submit the name again
    if (name->id == 0) nameless.push_back(name);
    recorder_.finished(handle->record, !error, now, moments);
    handle->finish(error, now);
  }
  drop_names(nameless);
  pending_.fetch_sub(mine);
  baton_.wake();
}

void Engine::drop_names(const std::vector<Name*>& names) {
  if (names.empty()) return;
  std::lock_guard lock(mutex_);
  for (Name* name : names) {
    if (!name->pending) names_.drop(*name);
  }
}

bool Engine::wait(const HandleState& handle, Deadline deadline) {
  return await([&handle] { return handle.done(); }, deadline);
}

void Engine::wait_until_on_stream(const HandleState& handle) {
  await([&handle] { return handle.on_stream(); }, Deadline::never());
}

base::Result<void> Engine::run(const std::function<void()>& begin,
                               const std::function<bool()>& finished) {
  while (!baton_.try_take()) baton_.await([] { return false; }, Deadline::never());
  if (!failed_) {
    begin();
    drive([&] { return failed_ || finished(); }, Deadline::never(), Driver::kWaiter);
    // After an abort, one more round of the transport ends what is under way.
    for (int i = 0; i < 100 && !finished(); ++i) round();
  }
  const bool failed = failed_;
  release();
  if (failed) return base::fail(failure());
  return {};
}

void Engine::leave() {
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      closed_ = base::Error{base::Code::kShutdown, "the world has been shut down", {}, 0};
    }
  }
  await([this] { return pending_ == 0; }, Deadline::never());
  while (!baton_.try_take()) baton_.await([] { return false; }, Deadline::never());
  recorder_.leave();
  parts_.negotiator->announce_leaving();
  release();
  // Our own goodbye comes back through the coordinator, so it has been heard. Another rank's will
  // do: from then on nobody can agree on anything, so nobody can miss us.
  const Deadline deadline = Deadline::after(kGoodbye);
  await([this] { return over_ || failed_; }, deadline);
  while (!baton_.try_take()) baton_.await([] { return false; }, Deadline::never());
  drive([this] { return failed_ || parts_.negotiator->flushed(); }, deadline, Driver::kWaiter);
  release();
}

void Engine::stop() {
  fail({base::Code::kShutdown, "the world has been shut down", {}, 0});
  if (!thread_.joinable()) return;
  stop_ = true;
  kick();
  baton_.wake();
  thread_.join();
  await([this] { return pending_ == 0; }, Deadline::after(kGoodbye));
  while (!baton_.try_take()) baton_.await([] { return false; }, Deadline::never());
  round();  // the transport gives back what is lent to it
  baton_.give();
}

}  // namespace hv::runtime
