#include "launcher/job_state.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "rendezvous/base/log.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kNever = base::Clock::time_point::max();
constexpr auto kSlack = 2s;      // on top of lost-after and grace, for everything that is bounded
constexpr auto kToRelease = 3s;  // for an agent to clean up and end

// A program that is missing or not executable has its own code, as in a shell.
int start_code(const base::Error& error) {
  if (error.sys == ENOENT) return kExitNotFound;
  return error.sys == EACCES ? kExitNotExecutable : kExitStartFailed;
}

}  // namespace

JobState::JobState(const Plan& plan, const Limits& limits, Time now)
    : limits_(limits), started_(now), deadline_(now + limits.start_timeout) {
  ranks_.resize(static_cast<std::size_t>(plan.size));
  for (const auto& host : plan.hosts) {
    Host& mine = hosts_.emplace_back();
    mine.name = host.host.name;
    for (const auto& rank : host.ranks) {
      mine.ranks.push_back(rank.rank);
      ranks_[static_cast<std::size_t>(rank.rank)].host = host.index;
    }
  }
}

std::vector<Action> JobState::on(const Event& event, Time now) {
  auto move = std::ranges::find_if(table(), [&](const Move& candidate) {
    return candidate.in == phase_ && candidate.on == event.kind;
  });
  Phase before = phase_;
  if (move != table().end()) (this->*move->run)(event, now);
  if (base::log_enabled(base::LogLevel::kDebug)) {
    std::string line =
        "job " + std::string(to_string(before)) + ": " + std::string(to_string(event.kind));
    if (event.rank >= 0)
      line += ", rank " + std::to_string(event.rank);
    else if (event.host < hosts_.size())
      line += ", host " + hosts_[event.host].name;
    if (!event.error.text.empty()) line += " (" + event.error.text + ")";
    if (phase_ != before) line += " → " + std::string(to_string(phase_));
    base::log(base::LogLevel::kDebug, line);
  }
  return std::exchange(actions_, {});
}

// ---- starting ------------------------------------------------------------------------------

void JobState::agent_up(const Event& event, Time) {
  hosts_[event.host].up = true;
  act({.kind = Action::Kind::kPreflight, .host = event.host});
}

void JobState::preflight_ok(const Event& event, Time now) {
  hosts_[event.host].answered = true;
  decide_start(now);
}

void JobState::not_startable(const Event& event, Time now) {
  Host& host = hosts_[event.host];
  if (event.kind == EventKind::kAgentEnded) host.ended = true;
  if (!host.answered || event.kind != EventKind::kAgentEnded) {
    host.errors.insert(host.errors.end(), event.errors.begin(), event.errors.end());
    if (event.errors.empty()) host.errors.push_back(event.error);
  }
  host.answered = true;
  decide_start(now);
}

// Waits for every host's answer, so that all that is wrong is said at once.
void JobState::decide_start(Time now) {
  if (!std::ranges::all_of(hosts_, &Host::answered)) return;
  auto errors = start_errors();
  if (errors.empty()) {
    phase_ = Phase::kRunning;
    return act({.kind = Action::Kind::kLaunch});
  }
  cause_ = Cause{};
  cause_->exit_code = start_code(errors.front().error);
  cause_->text = format_host_errors(errors, hosts_.size());
  release(now);
}

// In the order of the hosts, whoever answered first.
std::vector<HostError> JobState::start_errors() const {
  std::vector<HostError> all;
  for (const auto& host : hosts_) {
    for (const auto& error : host.errors) all.push_back({host.name, error});
  }
  return all;
}

void JobState::start_timeout(const Event&, Time now) {
  std::string limit = std::to_string(limits_.start_timeout.count() / 1000);
  if (phase_ == Phase::kRunning) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].started && !ranks_[i].exited) missing.push_back(static_cast<int>(i));
    }
    Cause cause;
    cause.exit_code = kExitStartTimeout;
    cause.text = "ranks " + base::ranges(missing) + " did not start within " + limit +
                 " s; see --start-timeout";
    return end_job(std::move(cause), SIGTERM, now);
  }
  for (auto& host : hosts_) {
    if (host.answered) continue;
    std::string what =
        host.up ? "hvagent is up, but did not check the program" : "hvagent is not up";
    host.errors.push_back(
        {base::Code::kTimeout, what + " within " + limit + " s; see --start-timeout", {}, 0});
  }
  cause_ = Cause{};
  cause_->exit_code = kExitStartTimeout;
  cause_->text = format_host_errors(start_errors(), hosts_.size());
  release(now);
}

void JobState::interrupted_at_start(const Event& event, Time now) {
  cause_ = Cause{};
  cause_->kind = Cause::Kind::kInterrupt;
  cause_->exit_code = 128 + event.signal;
  cause_->text = "stopped by " + signal_name(event.signal) + " before the ranks had started";
  release(now);
}

void JobState::preempted_at_start(const Event& event, Time now) {
  cause_ = preempted_cause(event.signal, "before the ranks had started");
  release(now);
}

// ---- running -------------------------------------------------------------------------------

void JobState::rank_started(const Event& event, Time) {
  Rank& rank = ranks_[static_cast<std::size_t>(event.rank)];
  rank.started = true;
  rank.pid = event.pid;
  if (phase_ == Phase::kRunning && std::ranges::all_of(ranks_, &Rank::started)) deadline_ = kNever;
}

void JobState::rank_exited(const Event& event, Time now) {
  Rank& rank = ranks_[static_cast<std::size_t>(event.exited.rank)];
  rank.exited = true;
  if (preempted_by_ != 0 && exit_code_of(event.exited) == 0) return;
  if (exit_code_of(event.exited) == 0) return check_left_early(now);
  rank.failed = true;
  if (ended_by_preemption(event.exited)) {
    base::Error error{base::Code::kPeerLost, exit_cause(event.exited, now).text, {}, 0};
    return act({.kind = Action::Kind::kFailEpoch, .rank = event.exited.rank, .error = error});
  }
  // A rank that ended with 0 and without goodbye is what this one tripped over.
  auto quitter = std::ranges::find_if(ranks_, [](const Rank& other) {
    return other.exited && !other.failed && other.generation > 0 && !other.left;
  });
  // Who reports first tells all others, and these may be the first to end.
  const bool tripped = rank.blames_another || (exit_code_of(event.exited) < 128 &&
                                               std::ranges::any_of(ranks_, &Rank::blames_another));
  if (tripped && quitter != ranks_.end()) {
    return end_job(left_early_cause(static_cast<int>(quitter - ranks_.begin()),
                                    "exited with code 0 without a goodbye (hv::shutdown) while "
                                    "others needed it,",
                                    now),
                   SIGTERM, now);
  }
  end_job(exit_cause(event.exited, now), SIGTERM, now);
}

void JobState::rank_joined(const Event& event, Time now) {
  ranks_[static_cast<std::size_t>(event.rank)].generation = event.generation;
  ranks_[static_cast<std::size_t>(event.rank)].left = false;
  check_left_early(now);
}

void JobState::rank_left(const Event& event, Time) {
  ranks_[static_cast<std::size_t>(event.rank)].left = true;
}

void JobState::rank_fault(const Event& event, Time) {
  bool blames = event.error.code == base::Code::kPeerLost ||
                event.error.code == base::Code::kAborted ||
                event.error.code == base::Code::kTimeout;
  ranks_[static_cast<std::size_t>(event.rank)].blames_another |= blames;
}

void JobState::stalled(const Event& event, Time now) {
  Cause cause;
  cause.kind = Cause::Kind::kStalled;
  cause.exit_code = kExitStalled;
  cause.text = event.error.text;
  cause.after = since_start(now);
  end_job(std::move(cause), SIGTERM, now);
}

// Somebody waits to meet a rank that has ended already: it would wait for ever.
void JobState::check_left_early(Time now) {
  auto waiting = std::ranges::max(ranks_, {}, &Rank::generation).generation;
  auto quitter = std::ranges::find_if(ranks_, [&](const Rank& rank) {
    return rank.exited && !rank.failed && rank.generation < waiting;
  });
  if (quitter == ranks_.end()) return;
  end_job(left_early_cause(static_cast<int>(quitter - ranks_.begin()),
                           "exited with code 0 while other ranks wait for it in hv::init,", now),
          SIGTERM, now);
}

void JobState::host_done(const Event& event, Time now) {
  hosts_[event.host].done = true;
  check_all_ended(now);
}

void JobState::host_failed(const Event& event, Time now) {
  Host& host = hosts_[event.host];
  bool over = host.done;  // its ranks have all ended well
  if (event.kind != EventKind::kAgentFault) mark_gone(event);
  if (over) return check_all_ended(now);
  end_job(host_cause(event, now), SIGTERM, now);
  check_all_ended(now);
}

void JobState::interrupted(const Event& event, Time now) {
  Cause cause;
  cause.kind = Cause::Kind::kInterrupt;
  cause.exit_code = 128 + event.signal;
  cause.text = "stopped by " + signal_name(event.signal) + "; all ranks were ended";
  end_job(std::move(cause), event.signal == SIGINT ? SIGINT : SIGTERM, now);
}

// The ranks have got the signal. How long they may take is the scheduler's business: nobody is
// killed by us, and that a rank ends is no failure.
void JobState::preempted(const Event& event, Time) { preempted_by_ = event.signal; }

// By the signal itself, by its number as a shell has it, or because another rank has gone so.
bool JobState::ended_by_preemption(const rendezvous::RankExited& exited) const {
  return preempted_by_ != 0 && (exit_code_of(exited) == 128 + preempted_by_ ||
                                ranks_[static_cast<std::size_t>(exited.rank)].blames_another);
}

// ---- ending --------------------------------------------------------------------------------

void JobState::end_job(Cause cause, int signal, Time now) {
  base::Error error{base::Code::kPeerLost, cause.text, {}, 0};
  if (cause.rank >= 0) {
    error.text = "rank " + std::to_string(cause.rank) + " on " + cause.host + " " + cause.text;
    if (error.text.ends_with(',')) error.text.pop_back();
  }
  phase_ = Phase::kEnding;
  deadline_ = now + limits_.grace + limits_.lost_after + kSlack;
  act({.kind = Action::Kind::kFailEpoch, .rank = cause.rank, .error = std::move(error)});
  act({.kind = Action::Kind::kEndRanks, .signal = signal, .grace = limits_.grace});
  cause_ = std::move(cause);
}

void JobState::rank_exited_later(const Event& event, Time now) {
  Rank& rank = ranks_[static_cast<std::size_t>(event.exited.rank)];
  rank.exited = true;
  rank.failed = exit_code_of(event.exited) != 0;
  // The rank that the others trip over may be reported after the first that tripped.
  bool tripped = cause_->kind == Cause::Kind::kRank &&
                 ranks_[static_cast<std::size_t>(cause_->rank)].blames_another;
  if (tripped && rank.failed && !rank.blames_another && !event.exited.asked_to_end) {
    cause_ = exit_cause(event.exited, now);
  }
}

void JobState::mark_gone(const Event& event) {
  Host& host = hosts_[event.host];
  if (event.kind == EventKind::kAgentEnded) host.ended = true;
  host.lost |= !host.done;
  if (!host.lost) return;
  for (int number : host.ranks) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    rank.failed |= !rank.exited;
    rank.exited = true;
  }
}

// The host whose ranks the others trip over may be known as lost only after one of them has ended.
void JobState::host_gone(const Event& event, Time now) {
  const bool is_news = !hosts_[event.host].done && !hosts_[event.host].lost;
  if (is_news && may_follow_from(event.host)) cause_ = host_cause(event, now);
  mark_gone(event);
  check_all_ended(now);
}

void JobState::check_all_ended(Time now) {
  if (std::ranges::all_of(hosts_, [](const Host& host) { return host.done || host.lost; })) {
    release(now);
  }
}

void JobState::interrupted_again(const Event&, Time) {
  act({.kind = Action::Kind::kEndRanks, .signal = SIGKILL, .grace = 0ms});
}

void JobState::ending_too_long(const Event&, Time now) {
  for (auto& host : hosts_) host.lost |= !host.done;
  release(now);
}

// ---- releasing -----------------------------------------------------------------------------

void JobState::release(Time now) {
  if (preempted_by_ != 0 && !cause_) {
    cause_ = preempted_cause(preempted_by_, "all ranks have ended");
  }
  phase_ = Phase::kReleasing;
  deadline_ = now + kToRelease;
  act({.kind = Action::Kind::kRelease});
  if (std::ranges::any_of(hosts_, &Host::lost)) {
    stopped_ = true;
    act({.kind = Action::Kind::kStopHosts});
  }
  agent_ended({.kind = EventKind::kTimeUp}, now);
}

void JobState::agent_ended(const Event& event, Time) {
  if (event.kind == EventKind::kAgentEnded) hosts_[event.host].ended = true;
  if (!std::ranges::all_of(hosts_, &Host::ended)) return;
  phase_ = Phase::kDone;
  deadline_ = kNever;
  act({.kind = Action::Kind::kFinish});
}

void JobState::stop_hosts(const Event& event, Time now) {
  if (stopped_ && event.kind == EventKind::kTimeUp) {  // what does not end now never will
    for (auto& host : hosts_) host.ended = true;
    return agent_ended(event, now);
  }
  stopped_ = true;
  deadline_ = now + kToRelease;
  act({.kind = Action::Kind::kStopHosts});
}

// ---- causes --------------------------------------------------------------------------------

Cause JobState::exit_cause(const rendezvous::RankExited& exited, Time now) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(exited.rank)];
  return make_exit_cause(exited, hosts_[rank.host].name, since_start(now));
}

Cause JobState::host_cause(const Event& event, Time now) const {
  Cause cause;
  cause.kind = Cause::Kind::kHost;
  cause.exit_code = kExitHostLost;
  cause.host = hosts_[event.host].name;
  cause.text = "host " + cause.host + " is lost: " + event.error.text;
  cause.after = since_start(now);
  return cause;
}

// Ranks have said that they lost another, and the one that ended the job did so by a plain exit.
bool JobState::may_follow_from(std::uint32_t host) const {
  return cause_->kind == Cause::Kind::kRank && cause_->exit_code < 128 &&
         ranks_[static_cast<std::size_t>(cause_->rank)].host != host &&
         std::ranges::any_of(ranks_, &Rank::blames_another);
}

Cause JobState::preempted_cause(int signal, const std::string& what) const {
  Cause cause;
  cause.kind = Cause::Kind::kPreempted;
  cause.exit_code = limits_.preempt_code;
  cause.text = "preempted: the scheduler sent " + signal_name(signal) + "; " + what;
  return cause;
}

Cause JobState::left_early_cause(int number, const std::string& what, Time now) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(number)];
  Cause cause;
  cause.kind = Cause::Kind::kRank;
  cause.exit_code = kExitLeftEarly;
  cause.text = what;
  cause.rank = number;
  cause.host = hosts_[rank.host].name;
  cause.pid = rank.pid;
  cause.after = since_start(now);
  return cause;
}

int JobState::consequences() const {
  if (!cause_ || cause_->kind == Cause::Kind::kInterrupt || preempted()) return 0;
  int failed = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    failed += ranks_[i].failed && static_cast<int>(i) != cause_->rank;
  }
  return failed;
}

base::Millis JobState::since_start(Time now) const {
  return std::chrono::duration_cast<base::Millis>(now - started_);
}

}  // namespace hv::launcher
