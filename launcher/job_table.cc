// The table of job_state.h, and the names of its rows and columns.
#include "launcher/job_state.h"

namespace hv::launcher {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kRunning:
      return "running";
    case Phase::kEnding:
      return "ending";
    case Phase::kReleasing:
      return "releasing";
    case Phase::kDone:
      return "done";
  }
  return "?";
}

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kAgentUp:
      return "agent up";
    case EventKind::kPreflightOk:
      return "preflight ok";
    case EventKind::kPreflightBad:
      return "preflight bad";
    case EventKind::kRankStarted:
      return "rank started";
    case EventKind::kRankExited:
      return "rank exited";
    case EventKind::kRankJoined:
      return "rank joined";
    case EventKind::kRankLeft:
      return "rank left";
    case EventKind::kRankFault:
      return "rank fault";
    case EventKind::kStalled:
      return "stalled";
    case EventKind::kHostDone:
      return "host done";
    case EventKind::kAgentFault:
      return "agent fault";
    case EventKind::kHostLost:
      return "host lost";
    case EventKind::kAgentEnded:
      return "agent ended";
    case EventKind::kInterrupt:
      return "interrupt";
    case EventKind::kPreempted:
      return "preempted";
    case EventKind::kTimeUp:
      return "time up";
  }
  return "?";
}

// What is not listed changes nothing.
const std::vector<JobState::Move>& JobState::table() {
  using P = Phase;
  using E = EventKind;
  using J = JobState;
  static const std::vector<Move> moves = {
      {P::kStarting, E::kAgentUp, &J::agent_up},
      {P::kStarting, E::kPreflightOk, &J::preflight_ok},
      {P::kStarting, E::kPreflightBad, &J::not_startable},
      {P::kStarting, E::kAgentFault, &J::not_startable},
      {P::kStarting, E::kHostLost, &J::not_startable},
      {P::kStarting, E::kAgentEnded, &J::not_startable},
      {P::kStarting, E::kInterrupt, &J::interrupted_at_start},
      {P::kStarting, E::kPreempted, &J::preempted_at_start},
      {P::kStarting, E::kTimeUp, &J::start_timeout},

      {P::kRunning, E::kRankStarted, &J::rank_started},
      {P::kRunning, E::kRankExited, &J::rank_exited},
      {P::kRunning, E::kRankJoined, &J::rank_joined},
      {P::kRunning, E::kRankLeft, &J::rank_left},
      {P::kRunning, E::kRankFault, &J::rank_fault},
      {P::kRunning, E::kStalled, &J::stalled},
      {P::kRunning, E::kHostDone, &J::host_done},
      {P::kRunning, E::kAgentFault, &J::host_failed},
      {P::kRunning, E::kHostLost, &J::host_failed},
      {P::kRunning, E::kAgentEnded, &J::host_failed},
      {P::kRunning, E::kInterrupt, &J::interrupted},
      {P::kRunning, E::kPreempted, &J::preempted},
      {P::kRunning, E::kTimeUp, &J::start_timeout},

      {P::kEnding, E::kRankStarted, &J::rank_started},
      {P::kEnding, E::kRankExited, &J::rank_exited_later},
      {P::kEnding, E::kRankFault, &J::rank_fault},
      {P::kEnding, E::kHostDone, &J::host_done},
      {P::kEnding, E::kHostLost, &J::host_gone},
      {P::kEnding, E::kAgentEnded, &J::host_gone},
      {P::kEnding, E::kInterrupt, &J::interrupted_again},
      {P::kEnding, E::kTimeUp, &J::ending_too_long},

      {P::kReleasing, E::kHostLost, &J::agent_ended},
      {P::kReleasing, E::kAgentEnded, &J::agent_ended},
      {P::kReleasing, E::kInterrupt, &J::stop_hosts},
      {P::kReleasing, E::kTimeUp, &J::stop_hosts},
  };
  return moves;
}

}  // namespace hv::launcher
