#include "launcher/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Do = Action::Kind;

constexpr JobState::Limits kLimits{30s, 5s, 5s};

// A job of `hosts` hosts with two ranks each, and a clock that stands still unless moved.
class JobStateTest : public testing::Test {
 protected:
  explicit JobStateTest(int hosts = 2)
      : plan_(*make_plan(specs(hosts), 2 * hosts, 0)), state_(plan_, kLimits, now_) {}

  static std::vector<HostSpec> specs(int hosts) {
    std::vector<HostSpec> list;
    for (int i = 0; i < hosts; ++i) {
      auto& host = list.emplace_back();
      host.name = "h" + std::to_string(i);
      host.slots = 2;
    }
    return list;
  }

  std::vector<Do> on(const Event& event) {
    actions_ = state_.on(event, now_);
    std::vector<Do> kinds;
    for (const auto& action : actions_) kinds.push_back(action.kind);
    return kinds;
  }
  std::vector<Do> on_host(EventKind kind, std::uint32_t host, base::Error error = {}) {
    return on({.kind = kind, .host = host, .error = std::move(error)});
  }
  std::vector<Do> on_rank(EventKind kind, int rank) {
    return on({.kind = kind, .host = 0, .rank = rank, .pid = 100 + rank});
  }
  std::vector<Do> joined(int rank, std::uint32_t generation) {
    return on({.kind = EventKind::kRankJoined, .rank = rank, .generation = generation});
  }
  std::vector<Do> faults(int rank, base::Code code) {
    return on({.kind = EventKind::kRankFault, .rank = rank, .error = {code, "fault", {}, 0}});
  }
  std::vector<Do> exits(int rank, int code, int signal = 0, bool asked = false) {
    rendezvous::RankExited exited;
    exited.rank = rank;
    exited.pid = 100 + rank;
    exited.exit_code = code;
    exited.signal = signal;
    exited.asked_to_end = asked;
    exited.last_lines = {"line of " + std::to_string(rank)};
    return on({.kind = EventKind::kRankExited, .rank = rank, .exited = exited});
  }
  std::vector<Do> interrupt(int signal) {
    return on({.kind = EventKind::kInterrupt, .signal = signal});
  }
  std::vector<Do> time_up() {
    EXPECT_NE(state_.deadline(), JobState::Time::max());
    now_ = state_.deadline();
    return on({.kind = EventKind::kTimeUp});
  }
  void start() {
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host)
      on_host(EventKind::kAgentUp, host);
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) {
      on_host(EventKind::kPreflightOk, host);
    }
    for (int rank = 0; rank < plan_.size; ++rank) on_rank(EventKind::kRankStarted, rank);
    ASSERT_EQ(state_.phase(), Phase::kRunning);
  }
  // All agents report the end of their ranks and go.
  void end() {
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host)
      on_host(EventKind::kHostDone, host);
    EXPECT_EQ(state_.phase(), Phase::kReleasing);
    for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) {
      on_host(EventKind::kAgentEnded, host);
    }
    EXPECT_EQ(state_.phase(), Phase::kDone);
  }

  JobState::Time now_{};
  Plan plan_;
  JobState state_;
  std::vector<Action> actions_;
};

TEST_F(JobStateTest, GoodJob) {
  EXPECT_THAT(on_host(EventKind::kAgentUp, 1), ElementsAre(Do::kPreflight));
  EXPECT_EQ(actions_[0].host, 1U);
  EXPECT_THAT(on_host(EventKind::kPreflightOk, 1), IsEmpty());
  EXPECT_THAT(on_host(EventKind::kAgentUp, 0), ElementsAre(Do::kPreflight));
  EXPECT_THAT(on_host(EventKind::kPreflightOk, 0), ElementsAre(Do::kLaunch));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NE(state_.deadline(), JobState::Time::max());
    on_rank(EventKind::kRankStarted, rank);
  }
  EXPECT_EQ(state_.deadline(), JobState::Time::max());
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(exits(rank, 0), IsEmpty());
  EXPECT_THAT(on_host(EventKind::kHostDone, 0), IsEmpty());
  EXPECT_THAT(on_host(EventKind::kHostDone, 1), ElementsAre(Do::kRelease));
  EXPECT_THAT(on_host(EventKind::kAgentEnded, 0), IsEmpty());
  EXPECT_THAT(on_host(EventKind::kAgentEnded, 1), ElementsAre(Do::kFinish));
  EXPECT_EQ(state_.exit_code(), 0);
  EXPECT_FALSE(state_.cause());
}

TEST_F(JobStateTest, FirstFailureIsTheCause) {
  start();
  now_ += 2500ms;
  EXPECT_THAT(exits(2, 7), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(actions_[0].rank, 2);
  EXPECT_THAT(actions_[0].error.text, HasSubstr("rank 2 on h1 exited with code 7"));
  EXPECT_EQ(actions_[1].signal, SIGTERM);
  EXPECT_EQ(actions_[1].grace, 5s);
  EXPECT_THAT(exits(0, 5), IsEmpty());
  exits(1, 0, SIGTERM, true);
  exits(3, 0);
  end();
  EXPECT_EQ(state_.exit_code(), 7);
  EXPECT_EQ(state_.cause()->rank, 2);
  EXPECT_EQ(state_.cause()->pid, 102);
  EXPECT_EQ(state_.cause()->after, 2500ms);
  EXPECT_THAT(state_.cause()->last_lines, ElementsAre("line of 2"));
  EXPECT_EQ(state_.consequences(), 2);
}

TEST_F(JobStateTest, SignalsCountFrom128) {
  start();
  exits(1, 0, SIGSEGV);
  EXPECT_EQ(state_.exit_code(), 139);
  EXPECT_THAT(state_.cause()->text, HasSubstr("SIGSEGV"));
}

TEST_F(JobStateTest, TheRankThatOthersTripOverIsTheCauseThoughItIsReportedLater) {
  start();
  faults(0, base::Code::kPeerLost);
  exits(0, 1);
  exits(3, 0, SIGKILL, false);
  EXPECT_EQ(state_.cause()->rank, 3);
  EXPECT_EQ(state_.exit_code(), 137);
  exits(1, 0, SIGTERM, true);
  EXPECT_EQ(state_.cause()->rank, 3);
  EXPECT_EQ(state_.consequences(), 2);
}

TEST_F(JobStateTest, ARankThatWasAskedToEndIsNoCause) {
  start();
  faults(0, base::Code::kPeerLost);
  exits(0, 1);
  exits(3, 0, SIGTERM, true);
  EXPECT_EQ(state_.cause()->rank, 0);
}

TEST_F(JobStateTest, ExitZeroBeforeInitWhileOthersWait) {
  start();
  EXPECT_THAT(joined(0, 1), IsEmpty());
  EXPECT_THAT(exits(2, 0), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(state_.exit_code(), kExitLeftEarly);
  EXPECT_EQ(state_.cause()->rank, 2);
}

TEST_F(JobStateTest, OthersWaitForARankThatHasExited) {
  start();
  for (int rank = 0; rank < 4; ++rank) joined(rank, 1);
  on_rank(EventKind::kRankLeft, 1);
  EXPECT_THAT(exits(1, 0), IsEmpty());
  EXPECT_THAT(joined(0, 2), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(state_.cause()->rank, 1);
}

TEST_F(JobStateTest, ProgramsWithoutHvMayExitWhenTheyLike) {
  start();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(exits(rank, 0), IsEmpty());
  end();
  EXPECT_EQ(state_.exit_code(), 0);
}

TEST_F(JobStateTest, ExitZeroWithoutGoodbyeIsWhatOthersTripOver) {
  start();
  for (int rank = 0; rank < 4; ++rank) joined(rank, 1);
  EXPECT_THAT(exits(1, 0), IsEmpty());
  faults(2, base::Code::kPeerLost);
  exits(2, 1);
  EXPECT_EQ(state_.cause()->rank, 1);
  EXPECT_EQ(state_.exit_code(), kExitLeftEarly);
}

// The rank that reports tells all: whoever of them ends first has not reported anything itself.
TEST_F(JobStateTest, WhoTrippedOverAQuitterMayEndBeforeTheOneThatReportedIt) {
  start();
  for (int rank = 0; rank < 4; ++rank) joined(rank, 1);
  exits(1, 0);
  faults(2, base::Code::kPeerLost);
  exits(3, 1);
  EXPECT_EQ(state_.cause()->rank, 1);
  EXPECT_EQ(state_.exit_code(), kExitLeftEarly);
}

TEST_F(JobStateTest, ASignalIsACauseThoughAnotherRankHasQuit) {
  start();
  for (int rank = 0; rank < 4; ++rank) joined(rank, 1);
  exits(1, 0);
  faults(2, base::Code::kPeerLost);
  exits(3, 0, SIGSEGV);
  EXPECT_EQ(state_.cause()->rank, 3);
  EXPECT_EQ(state_.exit_code(), 128 + SIGSEGV);
}

TEST_F(JobStateTest, AllBadHostsInOneReport) {
  on_host(EventKind::kAgentUp, 0);
  Event bad{.kind = EventKind::kPreflightBad, .host = 0};
  bad.errors = {{base::Code::kNotFound, "program 'x' was not found", {}, ENOENT}};
  EXPECT_THAT(on(bad), IsEmpty());
  EXPECT_THAT(on_host(EventKind::kAgentEnded, 1, {base::Code::kAuth, "no key", {}, 0}),
              ElementsAre(Do::kRelease));
  EXPECT_EQ(state_.exit_code(), 127);
  EXPECT_THAT(state_.cause()->text, HasSubstr("2 of 2 hosts failed"));
  EXPECT_THAT(state_.cause()->text, HasSubstr("h0: program 'x' was not found"));
  EXPECT_THAT(state_.cause()->text, HasSubstr("h1: no key"));
  EXPECT_THAT(on_host(EventKind::kAgentEnded, 0), ElementsAre(Do::kFinish));
}

TEST_F(JobStateTest, BadHostsComeInTheOrderOfTheList) {
  on_host(EventKind::kAgentEnded, 1, {base::Code::kAuth, "no key", {}, 0});
  on_host(EventKind::kAgentEnded, 0, {base::Code::kAuth, "no key", {}, 0});
  EXPECT_THAT(state_.cause()->text, HasSubstr("h0, h1 (2 hosts): no key"));
}

TEST_F(JobStateTest, StartTimeoutNamesWhoIsMissing) {
  on_host(EventKind::kAgentUp, 0);
  on_host(EventKind::kPreflightOk, 0);
  EXPECT_THAT(time_up(), ElementsAre(Do::kRelease));
  EXPECT_EQ(state_.exit_code(), kExitStartTimeout);
  EXPECT_THAT(state_.cause()->text, HasSubstr("h1: hvagent is not up within 30 s"));
}

TEST_F(JobStateTest, HostLostEndsTheOthers) {
  start();
  EXPECT_THAT(on_host(EventKind::kHostLost, 1, {base::Code::kPeerLost, "no sign of life", {}, 0}),
              ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(state_.exit_code(), kExitHostLost);
  EXPECT_THAT(state_.cause()->text, HasSubstr("host h1 is lost: no sign of life"));
  exits(0, 0, SIGTERM, true);
  exits(1, 0, SIGTERM, true);
  EXPECT_THAT(on_host(EventKind::kHostDone, 0), ElementsAre(Do::kRelease, Do::kStopHosts));
  EXPECT_EQ(state_.consequences(), 4);
}

TEST_F(JobStateTest, AHostWhoseRanksTheOthersTripOverIsTheCause) {
  start();
  EXPECT_THAT(exits(0, 1), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(state_.exit_code(), 1);
  faults(1, base::Code::kPeerLost);
  on_host(EventKind::kAgentEnded, 1, {base::Code::kPeerLost, "hvagent was killed", {}, 0});
  EXPECT_EQ(state_.exit_code(), kExitHostLost);
  EXPECT_THAT(state_.cause()->text, HasSubstr("host h1 is lost: hvagent was killed"));
}

TEST_F(JobStateTest, AHostThatIsLostAfterARankFailedOfItselfIsNotTheCause) {
  start();
  exits(0, 0, SIGSEGV);
  faults(1, base::Code::kPeerLost);
  on_host(EventKind::kHostLost, 1);
  EXPECT_EQ(state_.exit_code(), 128 + SIGSEGV);
}

TEST_F(JobStateTest, AHostThatHasDoneItsPartMayGo) {
  start();
  on_host(EventKind::kHostDone, 1);
  EXPECT_THAT(on_host(EventKind::kHostLost, 1), IsEmpty());
  EXPECT_FALSE(state_.cause());
  EXPECT_THAT(on_host(EventKind::kHostDone, 0), ElementsAre(Do::kRelease));
}

TEST_F(JobStateTest, AgentFaultWaitsForItsRanks) {
  start();
  EXPECT_THAT(on_host(EventKind::kAgentFault, 0, {base::Code::kPeerLost, "keeper", {}, 0}),
              ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  on_host(EventKind::kHostDone, 1);
  EXPECT_EQ(state_.phase(), Phase::kEnding);
  on_host(EventKind::kHostDone, 0);
  EXPECT_EQ(state_.phase(), Phase::kReleasing);
}

TEST_F(JobStateTest, InterruptOnceAndTwice) {
  start();
  EXPECT_THAT(interrupt(SIGINT), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(actions_[1].signal, SIGINT);
  EXPECT_THAT(interrupt(SIGINT), ElementsAre(Do::kEndRanks));
  EXPECT_EQ(actions_[0].grace, 0ms);
  for (int rank = 0; rank < 4; ++rank) exits(rank, 0, SIGKILL, true);
  end();
  EXPECT_EQ(state_.exit_code(), 130);
  EXPECT_EQ(state_.consequences(), 0);
}

TEST_F(JobStateTest, InterruptBeforeTheStart) {
  EXPECT_THAT(interrupt(SIGTERM), ElementsAre(Do::kRelease));
  EXPECT_EQ(state_.exit_code(), 143);
}

TEST_F(JobStateTest, AFailureStaysTheCauseWhenTheUserInterruptsTheEnd) {
  start();
  exits(0, 3);
  interrupt(SIGINT);
  EXPECT_EQ(state_.exit_code(), 3);
}

TEST_F(JobStateTest, EverythingIsBounded) {
  start();
  exits(0, 3);
  EXPECT_THAT(time_up(), ElementsAre(Do::kRelease, Do::kStopHosts));
  EXPECT_THAT(time_up(), ElementsAre(Do::kFinish));
  EXPECT_EQ(state_.phase(), Phase::kDone);
  EXPECT_EQ(now_ - JobState::Time{}, 12s + 3s);
}

TEST_F(JobStateTest, AgentsThatDoNotGoAreStopped) {
  start();
  for (int rank = 0; rank < 4; ++rank) exits(rank, 0);
  on_host(EventKind::kHostDone, 0);
  on_host(EventKind::kHostDone, 1);
  EXPECT_THAT(time_up(), ElementsAre(Do::kStopHosts));
  EXPECT_THAT(time_up(), ElementsAre(Do::kFinish));
  EXPECT_EQ(state_.exit_code(), 0);
}

TEST_F(JobStateTest, AStallEndsTheJobForAllRanksAlike) {
  start();
  const base::Error why{
      base::Code::kTimeout, "ended after a stall of 9 s: rank 3 is missing", {}, 0};
  EXPECT_THAT(on({.kind = EventKind::kStalled, .error = why}),
              ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  EXPECT_EQ(actions_[0].rank, -1);
  EXPECT_EQ(actions_[0].error.text, why.text);
  EXPECT_EQ(state_.exit_code(), kExitStalled);
  EXPECT_EQ(state_.cause()->text, why.text);
  exits(0, 1);
  EXPECT_EQ(state_.exit_code(), kExitStalled) << "the first cause stays";
}

TEST_F(JobStateTest, RanksThatCannotBeStarted) {
  start();
  rendezvous::RankExited exited;
  exited.rank = 1;
  exited.exit_code = 126;
  exited.exec_error = "cannot start /x: Permission denied";
  on({.kind = EventKind::kRankExited, .rank = 1, .exited = exited});
  EXPECT_EQ(state_.exit_code(), 126);
  EXPECT_THAT(state_.cause()->text, HasSubstr("could not be started: cannot start /x"));
}

TEST_F(JobStateTest, APreemptedJobHasAllTheTimeThatTheSchedulerGives) {
  start();
  EXPECT_THAT(on({.kind = EventKind::kPreempted, .signal = SIGTERM}), IsEmpty());
  EXPECT_EQ(state_.deadline(), JobState::Time::max());
  EXPECT_THAT(exits(0, 0), IsEmpty());
  EXPECT_THAT(exits(1, 0, SIGTERM), ElementsAre(Do::kFailEpoch));  // had no handler
  EXPECT_THAT(exits(2, 128 + SIGTERM), ElementsAre(Do::kFailEpoch));
  EXPECT_THAT(on({.kind = EventKind::kPreempted, .signal = SIGTERM}), IsEmpty());
  faults(3, base::Code::kPeerLost);
  EXPECT_THAT(exits(3, 1), ElementsAre(Do::kFailEpoch));  // tripped over the others
  EXPECT_EQ(state_.phase(), Phase::kRunning);
  end();
  EXPECT_TRUE(state_.preempted());
  EXPECT_EQ(state_.exit_code(), kExitPreempted);
  EXPECT_THAT(state_.cause()->text, HasSubstr("SIGTERM"));
}

TEST_F(JobStateTest, ARankThatFailsOfItselfIsTheCauseThoughTheJobIsPreempted) {
  start();
  on({.kind = EventKind::kPreempted, .signal = SIGUSR1});
  EXPECT_THAT(exits(1, 7), ElementsAre(Do::kFailEpoch, Do::kEndRanks));
  end();
  EXPECT_FALSE(state_.preempted());
  EXPECT_EQ(state_.exit_code(), 7);
}

TEST_F(JobStateTest, PreemptedBeforeTheStart) {
  on_host(EventKind::kAgentUp, 0);
  EXPECT_THAT(on({.kind = EventKind::kPreempted, .signal = SIGTERM}), ElementsAre(Do::kRelease));
  EXPECT_EQ(state_.exit_code(), kExitPreempted);
}

}  // namespace
}  // namespace hv::launcher
