// The job's state machine: states × events → actions, as one table. No sockets, no clock: time
// comes in as an argument.
//
// Thread: any one. Owner: the supervisor, which carries out the actions. Failure: the first failure
// becomes the cause; what follows it is counted as consequence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan.h"
#include "launcher/report.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/error.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

enum class Phase { kStarting, kRunning, kEnding, kReleasing, kDone };
std::string_view to_string(Phase phase);

enum class EventKind {
  kAgentUp,       // host
  kPreflightOk,   // host
  kPreflightBad,  // host, errors
  kRankStarted,   // rank, pid
  kRankExited,    // exited
  kRankJoined,    // rank, generation: waits for the others, or has met them
  kRankLeft,      // rank: said goodbye
  kRankFault,     // rank, error: what it has told about itself
  kStalled,       // error: an operation has waited for ranks for too long
  kHostDone,      // host: all its ranks have ended
  kAgentFault,    // host, error: the agent is about to end its ranks
  kHostLost,      // host, error: no way to it any more
  kAgentEnded,    // host, error: nothing runs there any more
  kInterrupt,     // signal
  kPreempted,     // signal: the scheduler asks the job to end, and will see to it
  kTimeUp,        // deadline() has passed
};
std::string_view to_string(EventKind kind);

struct Event {
  EventKind kind;
  std::uint32_t host = 0;
  int rank = -1;
  int pid = 0;
  int signal = 0;
  std::uint32_t generation = 0;
  base::Error error{};
  std::vector<base::Error> errors{};
  rendezvous::RankExited exited{};
};

struct Action {
  enum class Kind {
    kPreflight,  // host
    kLaunch,     // all hosts
    kFailEpoch,  // rank, error: tell all ranks
    kEndRanks,   // signal, grace: all hosts
    kRelease,    // all agents
    kStopHosts,  // hard: whatever still runs
    kFinish,
  };
  Kind kind;
  std::uint32_t host = 0;
  int rank = -1;
  int signal = 0;
  base::Millis grace{0};
  base::Error error{};
};

class JobState {
 public:
  using Time = base::Clock::time_point;
  struct Limits {
    base::Millis start_timeout, grace, lost_after;
    int preempt_code = kExitPreempted;
  };

  JobState(const Plan& plan, const Limits& limits, Time now);

  std::vector<Action> on(const Event& event, Time now);
  Time deadline() const { return deadline_; }  // then kTimeUp
  Phase phase() const { return phase_; }

  const std::optional<Cause>& cause() const { return cause_; }
  int consequences() const;
  int exit_code() const { return cause_ ? cause_->exit_code : 0; }
  bool preempted() const { return cause_ && cause_->kind == Cause::Kind::kPreempted; }

 private:
  struct Host {
    std::string name;
    std::vector<int> ranks;
    std::vector<base::Error> errors;  // why it cannot start
    bool up = false, answered = false, done = false, lost = false, ended = false;
  };
  struct Rank {
    std::uint32_t host = 0;
    int pid = 0;
    bool started = false, exited = false, failed = false;
    std::uint32_t generation = 0;  // of its last join
    bool left = false;
    bool blames_another = false;
  };
  using Handler = void (JobState::*)(const Event&, Time);
  struct Move {
    Phase in;
    EventKind on;
    Handler run;
  };
  static const std::vector<Move>& table();

  // Handlers, named after what they answer.
  void agent_up(const Event&, Time);
  void preflight_ok(const Event&, Time);
  void not_startable(const Event&, Time);  // preflight bad, or host lost before the launch
  void start_timeout(const Event&, Time);
  void interrupted_at_start(const Event&, Time);
  void preempted_at_start(const Event&, Time);
  void rank_started(const Event&, Time);
  void rank_exited(const Event&, Time);
  void rank_exited_later(const Event&, Time);
  void rank_joined(const Event&, Time);
  void rank_left(const Event&, Time);
  void rank_fault(const Event&, Time);
  void stalled(const Event&, Time);
  void host_done(const Event&, Time);
  void host_failed(const Event&, Time);
  void host_gone(const Event&, Time);  // not news: the job is ending
  void interrupted(const Event&, Time);
  void preempted(const Event&, Time);
  void interrupted_again(const Event&, Time);
  void ending_too_long(const Event&, Time);
  void agent_ended(const Event&, Time);
  void stop_hosts(const Event&, Time);

  void decide_start(Time now);
  std::vector<HostError> start_errors() const;
  void check_left_early(Time now);
  void check_all_ended(Time now);
  void mark_gone(const Event& event);
  void release(Time now);
  void end_job(Cause cause, int signal, Time now);
  Cause exit_cause(const rendezvous::RankExited& exited, Time now) const;
  Cause host_cause(const Event& event, Time now) const;
  bool may_follow_from(std::uint32_t host) const;  // the cause, from the loss of this host
  Cause preempted_cause(int signal, const std::string& what) const;
  bool ended_by_preemption(const rendezvous::RankExited& exited) const;
  Cause left_early_cause(int rank, const std::string& what, Time now) const;
  base::Millis since_start(Time now) const;
  void act(Action action) { actions_.push_back(std::move(action)); }

  Limits limits_;
  Time started_, deadline_;
  Phase phase_ = Phase::kStarting;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  bool stopped_ = false;
  int preempted_by_ = 0;  // the scheduler's signal
  std::optional<Cause> cause_;
  std::vector<Action> actions_;
};

}  // namespace hv::launcher
