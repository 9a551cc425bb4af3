// How the work of an engine ends early: failures, and ranks that leave.
#include <utility>

#include "rendezvous/base/log.h"
#include "runtime/engine.h"

namespace hv::runtime {
namespace {

using base::Clock;
using base::Deadline;
using base::Millis;

constexpr Millis kTellAfter{300};     // the launcher sees a death sooner than this
constexpr Millis kDecideAfter{1500};  // without word from the launcher the error is the cause
constexpr std::chrono::microseconds kLookAtGpu{50};  // nothing wakes us when it is done

}  // namespace

void Engine::fail(const base::Error& first_cause) {
  std::lock_guard one_at_a_time(abort_mutex_);
  if (failed_) return;
  {
    std::lock_guard lock(mutex_);
    failure_ = first_cause;
  }
  failed_ = true;
  for (auto& backend : parts_.backends) backend->abort(first_cause);
  if (Gpu* gpu = gpu_) gpu->backend().abort(first_cause);
  if (parts_.plane.transport) parts_.plane.transport->abort(first_cause);
  parts_.plane.local->abort(first_cause);
  parts_.plane.local->ring(parts_.plane.local->rank());
}

base::Error Engine::failure() const {
  std::lock_guard lock(mutex_);
  return *failure_;
}

bool Engine::settle_failure() {
  std::vector<std::shared_ptr<HandleState>> ended;
  for (Op& op : parts_.negotiator->abandon()) ended.push_back(std::move(op.handle));
  while (auto agreed = parts_.negotiator->next()) {
    for (Op& op : agreed->batch.ops) ended.push_back(std::move(op.handle));
  }
  if (suspicion_) {
    ended.insert(ended.end(), suspicion_->handles.begin(), suspicion_->handles.end());
    suspicion_.reset();
  }
  bool moved = !ended.empty();
  if (moved) finish(ended, failure());
  return progress_backends() || moved;
}

// Some rank has shut down: what waits for an agreement waits in vain.
bool Engine::end_waiting() {
  const int rank = parts_.negotiator->left().front();
  const std::string gone = parts_.who[rank] + " has shut down";
  if (!over_) {
    over_ = true;
    std::lock_guard lock(mutex_);
    if (!closed_) {
      closed_ = base::Error{base::Code::kPeerLost,
                            gone + "; no collective over all ranks is possible any more",
                            {},
                            0};
    }
  }
  const std::vector<Op> ops = parts_.negotiator->abandon();
  for (const Op& op : ops) {
    finish({op.handle},
           base::Error{base::Code::kPeerLost,
                       std::string(to_string(op.kind)) + " '" + op.name + "': " + gone +
                           " without submitting it; every rank must run the same steps",
                       {},
                       0});
  }
  return !ops.empty();
}

void Engine::suspect(const base::Error& error) {
  if (suspicion_ || failed_) return;
  suspicion_.emplace(Suspicion{error, Clock::now(), false, {}});
  if (!parts_.report_fault) fail(error);
  kick();  // the thread must look after the time from now on
}

// A lost connection is a consequence more often than a cause: the launcher's word comes first.
bool Engine::follow_suspicion() {
  const auto age = Clock::now() - suspicion_->since;
  if (age >= kTellAfter && !suspicion_->reported) {
    suspicion_->reported = true;
    parts_.report_fault(suspicion_->error);
  }
  if (age < kDecideAfter) return false;
  fail(suspicion_->error);
  return true;
}

// When to wake although nothing has come. Called before each sleep.
Deadline Engine::next_step() {
  const auto now = Clock::now();
  if (!failed_ && stalls_.is_due(pending_ > 0, now)) look_for_stall();
  auto next = failed_ ? Clock::time_point::max() : stalls_.next(pending_ > 0, now);
  if (suspicion_ && !failed_) {
    next = std::min(next, suspicion_->since + (suspicion_->reported ? kDecideAfter : kTellAfter));
  }
  if (Gpu* gpu = gpu_; gpu && !gpu->backend().idle()) next = std::min(next, now + kLookAtGpu);
  return Deadline::at(next);
}

// Who is missing, and what became of them, is found out by whoever can ask all hosts.
void Engine::look_for_stall() {
  const auto* oldest = recorder_.oldest();
  std::optional<Clock::time_point> since;
  if (oldest) since = Clock::time_point(std::chrono::nanoseconds(oldest->submitted_ns));
  const auto now = Clock::now();
  const auto verdict = stalls_.look(since, now);
  if (verdict == StallWatch::Verdict::kFine) return;
  const auto waited = std::chrono::duration_cast<Millis>(now - *since);
  rendezvous::RankStall stall;
  stall.operation =
      std::string(oldest->kind.view()) + " '" + std::string(oldest->name.view()) + "'";
  stall.waited_ms = static_cast<std::uint32_t>(waited.count());
  stall.period_ms = static_cast<std::uint32_t>(parts_.knobs.stall_check_s * 1000);
  stall.shutdown = verdict != StallWatch::Verdict::kWarn;
  const std::string text = stall.operation + " has waited " +
                           std::to_string(waited.count() / 1000) + " s for other ranks";
  if (parts_.report_stall) {
    parts_.report_stall(stall);
  } else {
    base::log(base::LogLevel::kWarning, "stalled: " + text);
  }
  if (verdict == StallWatch::Verdict::kGiveUp || (stall.shutdown && !parts_.report_stall)) {
    fail({base::Code::kTimeout, text + " (HVRUN_STALL_SHUTDOWN_TIME)", {}, 0});
  }
}

}  // namespace hv::runtime
