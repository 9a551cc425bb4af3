// The agent: starts the ranks of one host, streams their output, relays what they say to the
// server, and ends them.
//
// Thread: one, around one poll loop; fork is safe. Owner: hvagent's main. Failure: whatever ends
// the link home, the keeper or the agent itself ends the ranks first: TERM, grace time, KILL.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/poller.h"
#include "launcher/agent/prober_link.h"
#include "launcher/agent/rank_gate.h"
#include "launcher/agent/rank_process.h"
#include "launcher/agent/rank_recorder.h"
#include "launcher/agent/relay.h"
#include "launcher/agent/signal_ledger.h"
#include "launcher/ticket.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/frame_stream.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class Agent {
 public:
  // `keeper`: what split_off_agent has returned.
  Agent(AgentTicket ticket, base::UniqueFd keeper);
  int run();  // the exit code: 0 when released by hvrun

 private:
  using Time = base::Clock::time_point;

  void open_home();
  rendezvous::AgentHello make_hello(std::string reached_from, std::string server_address) const;
  void watch_all(Poller& poller);
  bool finished() const;
  bool in_step() const { return !ticket_.by_node.empty(); }  // of Slurm, with no stream of its own

  void on_home(short revents);
  base::Result<void> on_frame(const rendezvous::Frame& frame);
  void on_message(const rendezvous::AgentWelcome& welcome);
  void on_message(const rendezvous::Preflight& request);
  void on_message(const rendezvous::LaunchOrder& order);
  void on_message(const rendezvous::OutputCredit& credit);
  void on_message(const rendezvous::Stdin& input);
  void on_message(const rendezvous::SignalRanks& request);
  void on_message(const rendezvous::EndRanks& request);
  void on_message(const rendezvous::ToRank& message);
  void on_message(const rendezvous::ToProber& message);
  void on_message(const rendezvous::Beat& beat);
  void on_message(const rendezvous::RecorderQuery& query);
  void on_message(const rendezvous::Tracing& tracing);
  void on_message(const rendezvous::OpenRelay& request);
  void on_message(const rendezvous::UseRelay& order);
  base::Result<void> pass_on(const rendezvous::ToAgent& message);
  void on_message(const rendezvous::Release& release);
  template <class Message>
  base::Result<void> handle(const rendezvous::Frame& frame);

  void add_rank(int rank, base::Result<StartedProcess> process, std::uint32_t credit,
                std::string cpus);
  void on_signals();
  void on_keeper();
  void reap();
  void report_ended();
  void send_traced(bool last);
  void pass_on(const rendezvous::SignalRanks& request);
  void end_ranks(int first_signal, base::Millis grace);
  void run_end_steps();
  void lose_home(const std::string& why);
  void fail_job(const std::string& why);
  void fail_job(const std::string& why, base::Millis grace);
  std::int64_t clock_us() const;

  template <class Message>
  void send(const Message& message);

  AgentTicket ticket_;
  SignalLedger ledger_;  // used in a step
  base::UniqueFd keeper_, signals_;
  std::optional<rendezvous::FrameStream> home_;
  std::optional<rendezvous::FrameStream> left_;  // the link before, until the next one is welcomed
  rendezvous::AgentHello hello_;
  Time started_ = base::Clock::now();
  Time last_heard_ = base::Clock::now();
  bool paused_ = false;  // by a terminal's Ctrl-Z, until its CONT: hvrun is stopped, it cannot beat
  base::Millis lost_after_, grace_{5000};

  base::UniqueFd held_port_;
  std::unique_ptr<RankGate> gate_;
  std::unique_ptr<ProberLink> prober_;
  std::unique_ptr<Relay> relay_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<RankRecorder> recorders_;  // of all ranks, those that have ended too
  rendezvous::Tracing tracing_;
  Time next_trace_;
  std::string working_directory_;
  std::int64_t oom_kills_ = 0;  // when the ranks were started
  bool launched_ = false;
  bool done_sent_ = false;
  bool released_ = false;
  int exit_code_ = 0;

  struct EndStep {
    Time due;
    int signal;
  };
  std::vector<EndStep> end_steps_;  // in order of time
};

}  // namespace hv::launcher
