#include "launcher/agent/agent.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "launcher/agent/binding.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/keeper.h"
#include "launcher/agent/post_mortem.h"
#include "launcher/agent/preflight.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/rank_environment.h"
#include "launcher/diagnose/infiniband.h"
#include "launcher/diagnose/nic_list.h"
#include "rendezvous/base/log.h"
#include "rendezvous/client.h"
#include "rendezvous/codec.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {

using base::Clock;
using base::Millis;
using rendezvous::Frame;
using rendezvous::MsgType;
using namespace std::chrono_literals;

namespace {

constexpr auto kDialTime = 2s;
constexpr auto kOnlyWayTime = 20s;  // in a step of Slurm there is no stream to fall back to
constexpr auto kRelayTime = 5s;
constexpr auto kToEndTree = 5s;
constexpr auto kKillAgain = 20ms;
constexpr auto kTraceTime = 100ms;  // between two looks at what has finished, for the timeline
// More than this on the way home: ranks and their output wait.
constexpr std::size_t kMaxQueued = 4 << 20;

base::UniqueFd open_signals(bool step) {
  sigset_t handled;
  ::sigemptyset(&handled);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&handled, signal);
  for (int signal : step ? scheduler_signals() : std::vector<int>{}) ::sigaddset(&handled, signal);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  return base::UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

Agent::Agent(AgentTicket ticket, base::UniqueFd keeper)
    : ticket_(std::move(ticket)),
      keeper_(std::move(keeper)),
      signals_(open_signals(in_step())),
      lost_after_(ticket_.lost_after_ms) {}

int Agent::run() {
  open_home();
  while (!finished()) {
    Poller poller;
    watch_all(poller);
    poller.run();
    run_end_steps();
    for (const auto& request : ledger_.due(Clock::now())) pass_on(request);
    report_ended();
  }
  if (!keeper_) end_descendants(kToEndTree);  // otherwise the keeper does it
  return exit_code_;
}

bool Agent::finished() const {
  if (released_) return !relay_ || relay_->is_written();
  bool all_ended = std::ranges::all_of(ranks_, [](auto& rank) { return rank->done(); });
  return !home_ && all_ended;
}

// TCP to whichever address of the server answers; else the stream that the spawner has opened.
void Agent::open_home() {
  std::string reached_from, server_address;
  if (!ticket_.servers.empty()) {
    auto connection = rendezvous::dial(ticket_.servers, ticket_.secret, rendezvous::Purpose::kAgent,
                                       base::Deadline::after(in_step() ? kOnlyWayTime : kDialTime));
    if (connection) {
      home_.emplace(std::move(connection->stream));
      reached_from = connection->local_address;
      server_address = connection->remote.address;
    } else {
      if (in_step()) {
        exit_code_ = 1;
        return base::log(base::LogLevel::kWarning,
                         "cannot reach hvrun (" + connection.error().text +
                             "): nodes must be able to connect to the node of hvrun; "
                             "--port-range and --advertise-addr say where");
      }
      base::log(base::LogLevel::kInfo, "no TCP to the server (" + connection.error().text +
                                           "); using the spawner's stream");
    }
  }
  if (!home_) home_.emplace(base::UniqueFd(0), base::UniqueFd(1));
  hello_ = make_hello(std::move(reached_from), std::move(server_address));
  send(hello_);
  last_heard_ = Clock::now();
}

rendezvous::AgentHello Agent::make_hello(std::string reached_from,
                                         std::string server_address) const {
  rendezvous::AgentHello hello;
  hello.build_id = ticket_.build_id;
  hello.host_index = ticket_.host_index;
  hello.host_name = host_name();
  hello.identity = host_identity();
  hello.pid = ::getpid();
  hello.cpus = usable_cpus();
  if (!ticket_.alone) {
    hello.interfaces = diagnose::describe_interfaces(rendezvous::list_interfaces(), "/sys");
    hello.cards = diagnose::read_ib_devices("/sys");
  }
  hello.reached_from = std::move(reached_from);
  hello.server_address = std::move(server_address);
  hello.nccl_conf = diagnose::read_nccl_conf();
  hello.device_masks = device_masks();
  return hello;
}

void Agent::watch_all(Poller& poller) {
  bool may_read = !home_ || home_->queued() < kMaxQueued;
  poller.watch(signals_.get(), POLLIN, [this](short) { on_signals(); });
  if (keeper_) {
    poller.watch(keeper_.get(), POLLIN, [this](short) { on_keeper(); });
  }
  if (gate_) gate_->watch(poller, may_read);
  if (prober_) prober_->watch(poller);
  // Without a way home the links through us end, too: those behind us end their ranks as we do.
  if (!home_ && !released_) relay_.reset();
  if (relay_) relay_->watch(poller, may_read);
  for (auto& rank : ranks_) {
    if (may_read && !rank->done()) rank->watch(poller);
  }
  if (!end_steps_.empty()) poller.wake_at(end_steps_.front().due);
  if (tracing_.on && may_read) {
    if (Clock::now() >= next_trace_) send_traced(false);
    poller.wake_at(next_trace_);
  }
  poller.wake_at(ledger_.next());
  if (!home_) return;
  if (!paused_) poller.wake_at(last_heard_ + lost_after_);
  // What has been queued since the last round goes out now, without waiting for poll.
  if (home_->queued() > 0 && !home_->on_writable()) return lose_home("the connection broke");
  poller.watch(home_->in_fd(), POLLIN, [this](short revents) { on_home(revents); });
  if (home_->queued() > 0) {
    poller.watch(home_->out_fd(), POLLOUT, [this](short) {
      if (home_ && !home_->on_writable()) lose_home("the connection broke");
    });
  }
}

void Agent::on_home(short) {
  auto read = home_->on_readable();
  last_heard_ = Clock::now();
  while (home_) {
    auto frame = home_->next();
    if (!frame) return lose_home(frame.error().text);
    if (!*frame) break;
    auto handled = on_frame(**frame);
    if (!handled) return lose_home(handled.error().text);
  }
  if (read || !home_) return;
  if (!released_) return lose_home(read.error().text);
  home_.reset();  // nothing more is expected from there
}

template <class Message>
base::Result<void> Agent::handle(const Frame& frame) {
  auto message = rendezvous::decode<Message>(frame.body);
  if (!message) return base::fail(message.error());
  on_message(*message);
  return {};
}

base::Result<void> Agent::on_frame(const Frame& frame) {
  using namespace rendezvous;
  if (frame.type == AgentWelcome::kType) return handle<AgentWelcome>(frame);
  if (frame.type == Preflight::kType) return handle<Preflight>(frame);
  if (frame.type == LaunchOrder::kType) return handle<LaunchOrder>(frame);
  if (frame.type == OutputCredit::kType) return handle<OutputCredit>(frame);
  if (frame.type == Stdin::kType) return handle<Stdin>(frame);
  if (frame.type == SignalRanks::kType) return handle<SignalRanks>(frame);
  if (frame.type == EndRanks::kType) return handle<EndRanks>(frame);
  if (frame.type == ToRank::kType) return handle<ToRank>(frame);
  if (frame.type == ToProber::kType) return handle<ToProber>(frame);
  if (frame.type == Beat::kType) return handle<Beat>(frame);
  if (frame.type == Release::kType) return handle<Release>(frame);
  if (frame.type == RecorderQuery::kType) return handle<RecorderQuery>(frame);
  if (frame.type == Tracing::kType) return handle<Tracing>(frame);
  if (frame.type == OpenRelay::kType) return handle<OpenRelay>(frame);
  if (frame.type == UseRelay::kType) return handle<UseRelay>(frame);
  if (frame.type == ToAgent::kType)
    return decode<ToAgent>(frame.body).and_then([&](const auto& message) {
      return pass_on(message);
    });
  return base::fail(base::Code::kProtocol, "hvrun sent a frame of unknown type " +
                                               std::to_string(static_cast<int>(frame.type)));
}

void Agent::on_message(const rendezvous::AgentWelcome& welcome) {
  lost_after_ = Millis(welcome.lost_after_ms);
  grace_ = Millis(welcome.grace_ms);
  left_.reset();
}

void Agent::on_message(const rendezvous::OpenRelay& request) {
  auto relay =
      Relay::open({false, {}, request.port_low, request.port_high},
                  relay_secret(ticket_.secret, ticket_.host_index), [this](const Frame& frame) {
                    if (home_) home_->send(frame);
                  });
  if (!relay) return send(rendezvous::RelayOpened{{}, rendezvous::to_wire(relay.error())});
  relay_ = std::move(*relay);
  send(rendezvous::RelayOpened{relay_->endpoints(), {}});
}

// hvrun has our link and keeps it should this fail; nothing else has happened yet.
void Agent::on_message(const rendezvous::UseRelay& order) {
  const auto deadline = base::Deadline::after(std::min<Millis>(kRelayTime, lost_after_ / 2));
  auto connection = rendezvous::dial(order.endpoints, relay_secret(ticket_.secret, order.host),
                                     rendezvous::Purpose::kAgent, deadline);
  if (!connection) return send(rendezvous::NotRelayed{rendezvous::to_wire(connection.error())});
  left_ = std::exchange(home_, std::move(connection->stream));
  last_heard_ = Clock::now();
  send(hello_);
}

base::Result<void> Agent::pass_on(const rendezvous::ToAgent& message) {
  if (relay_) relay_->deliver(message);
  if (message.host != rendezvous::kEveryAgent) return {};
  return on_frame({message.type, message.body});
}

void Agent::on_message(const rendezvous::Preflight& request) {
  auto result = run_preflight(request);
  held_port_ = std::move(result.held.socket);
  send(result.reply);
}

void Agent::on_message(const rendezvous::LaunchOrder& order) {
  auto secret = rendezvous::Secret::from_hex(order.rank_secret);
  if (!secret) return fail_job("the launch order holds no secret: " + secret.error().text);
  auto gate = RankGate::open(*secret, [this](const rendezvous::FromRank& message) {
    if (home_) send(message);
  });
  if (!gate) return fail_job(gate.error().text);
  gate_ = std::move(*gate);
  launched_ = true;
  working_directory_ = order.working_directory;
  oom_kills_ = oom_kills();
  done_sent_ = false;
  recorders_.clear();
  auto environment = host_environment(order, gate_->name(), environ);
  auto topology = read_topology("/sys");
  std::vector<ProcessSpec> specs;
  for (const auto& rank : order.ranks) {
    const auto& recorder = recorders_.emplace_back(rank.rank);
    auto with_recorder = rank;
    with_recorder.env.push_back(recorder.variable());
    auto& spec = specs.emplace_back();
    spec = {order.program, order.argv, rank_environment(environment, with_recorder),
            order.working_directory, rank.with_input};
    spec.place = choose_place(topology, order.bind, rank.local_rank, order.ranks.size());
    spec.inherited = recorder.descriptor();
  }
  std::vector<base::Result<StartingProcess>> starting;
  for (const auto& spec : specs) starting.push_back(begin_process(spec));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto process = !starting[i] ? base::fail(starting[i].error())
                                : finish_start(std::move(*starting[i]), specs[i]);
    add_rank(order.ranks[i].rank, std::move(process), order.output_credit,
             describe(topology, specs[i].place));
  }
}

void Agent::add_rank(int rank, base::Result<StartedProcess> process, std::uint32_t credit,
                     std::string cpus) {
  if (!process) {
    rendezvous::RankExited exited;
    exited.rank = rank;
    exited.exit_code = process.error().sys == EACCES ? 126 : 127;
    exited.at_us = clock_us();
    exited.exec_error = process.error().text;
    return send(exited);
  }
  send(rendezvous::RankStarted{rank, process->pid, std::move(cpus)});
  auto recorder = std::ranges::find(recorders_, rank, &RankRecorder::rank);
  recorder->set_process(process->pid);
  recorder->set_tracing(tracing_);
  ranks_.push_back(std::make_unique<RankProcess>(
      rank, std::move(*process), credit,
      RankProcess::Events{[this](const rendezvous::Output& output) { send(output); },
                          [this](const rendezvous::InputTaken& taken) { send(taken); }}));
}

void Agent::on_message(const rendezvous::OutputCredit& credit) {
  for (auto& rank : ranks_) {
    if (rank->rank() == credit.rank) rank->add_credit(credit.bytes);
  }
}

void Agent::on_message(const rendezvous::Stdin& input) {
  for (auto& rank : ranks_) {
    if (rank->rank() == input.rank) rank->feed(input.data, input.eof);
  }
}

void Agent::on_message(const rendezvous::SignalRanks& request) {
  if (in_step() && !request.whole_group) return ledger_.on_request(request, Clock::now());
  pass_on(request);
}

void Agent::pass_on(const rendezvous::SignalRanks& request) {
  for (auto& rank : ranks_) rank->signal(request.signal, request.whole_group);
  paused_ = request.signal == SIGTSTP || request.signal == SIGSTOP;
}

void Agent::on_message(const rendezvous::EndRanks& request) {
  end_ranks(request.first_signal, Millis(request.grace_ms));
}

void Agent::on_message(const rendezvous::ToRank& message) {
  if (gate_) gate_->deliver(message);
}

void Agent::on_message(const rendezvous::ToProber& message) {
  if (!prober_ || prober_->ended()) {
    auto prober = ProberLink::start(ticket_.secret.derive("prober"), ticket_.host_index,
                                    [this](const rendezvous::FromProber& answer) { send(answer); });
    if (!prober) return fail_job(prober.error().text);
    prober_ = std::move(*prober);
  }
  prober_->deliver(message);
}

void Agent::on_message(const rendezvous::Beat& beat) {
  if (beat.reply) return;
  const auto clock =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch());
  send(rendezvous::Beat{beat.number, true, clock.count()});
}

void Agent::on_message(const rendezvous::RecorderQuery& query) {
  rendezvous::RecorderReply reply{query.number, {}};
  for (const auto& recorder : recorders_) reply.ranks.push_back(recorder.view());
  send(reply);
}

void Agent::on_message(const rendezvous::Tracing& tracing) {
  const bool stopped = tracing_.on && !tracing.on;
  tracing_ = tracing;
  for (auto& recorder : recorders_) recorder.set_tracing(tracing);
  next_trace_ = Clock::now() + kTraceTime;
  if (stopped) send_traced(true);
}

void Agent::send_traced(bool last) {
  next_trace_ = Clock::now() + kTraceTime;
  for (auto& recorder : recorders_) {
    for (;;) {
      auto traced = recorder.take_traced();
      if (traced.records.empty()) break;
      send(traced);
    }
  }
  if (last) send(rendezvous::Traced{0, 0, true, {}});
}

void Agent::on_message(const rendezvous::Release&) { released_ = true; }

void Agent::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      reap();
    } else if (in_step()) {
      auto signal = static_cast<int>(info.ssi_signo);
      ledger_.on_scheduler(signal, Clock::now());
      send(rendezvous::SchedulerSignal{signal});
    } else {
      fail_job("hvagent got signal " + std::to_string(info.ssi_signo));
    }
  }
}

// Where Slurm sends to a process group only, it reaches the keeper, and neither us nor the ranks.
void Agent::on_keeper() {
  unsigned char signal = 0;
  if (::read(keeper_.get(), &signal, 1) == 1) {
    if (ledger_.on_keeper(signal, Clock::now())) send(rendezvous::SchedulerSignal{signal});
    return;
  }
  keeper_.reset();
  fail_job("the keeper of hvagent was killed", in_step() ? Millis(0) : grace_);
}

// Orphans of ranks are our children, too (subreaper), so everything that has ended is reaped.
void Agent::reap() {
  int status = 0;
  pid_t pid;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    auto rank = std::ranges::find(ranks_, pid, &RankProcess::pid);
    if (rank != ranks_.end() && (*rank)->running()) (*rank)->on_exit(status, clock_us());
  }
}

// A rank is reported when it has exited and its streams are at their end.
void Agent::report_ended() {
  for (auto& rank : ranks_) {
    if (!rank->done()) continue;
    auto exited = rank->exited();
    if (exited.rank == 0) held_port_.reset();
    if (exited.core_dumped) exited.core = core_file(exited.pid, working_directory_);
    exited.oom_killed =
        exited.signal == SIGKILL && !exited.asked_to_end && oom_kills() > oom_kills_;
    auto recorder = std::ranges::find(recorders_, exited.rank, &RankRecorder::rank);
    if (recorder != recorders_.end()) recorder->add_totals(exited);
    send(exited);
  }
  std::erase_if(ranks_, [](const auto& rank) { return rank->done(); });
  if (launched_ && ranks_.empty() && !done_sent_) {
    done_sent_ = true;
    end_steps_.clear();
    if (tracing_.on) send_traced(false);
    send(rendezvous::AgentDone{});
  }
  if (home_ && !paused_ && Clock::now() >= last_heard_ + lost_after_) {
    lose_home("no sign of life for " + std::to_string(lost_after_.count()) + " ms");
  }
}

void Agent::end_ranks(int first_signal, Millis grace) {
  auto now = Clock::now();
  for (auto& rank : ranks_) rank->ask_to_end();
  auto kill_at = now + grace;
  if (!end_steps_.empty()) kill_at = std::min(kill_at, end_steps_.back().due);
  end_steps_.clear();
  if (grace > 0ms) end_steps_.push_back({now, first_signal});
  if (grace > 0ms && first_signal == SIGINT) end_steps_.push_back({now + grace / 2, SIGTERM});
  end_steps_.push_back({kill_at, SIGKILL});
  run_end_steps();
}

// The first signals go to the main processes only, which may have children to look after; KILL
// goes to everything below us, and again until nothing of it is left.
void Agent::run_end_steps() {
  auto now = Clock::now();
  while (!end_steps_.empty() && end_steps_.front().due <= now) {
    int signal = end_steps_.front().signal;
    end_steps_.erase(end_steps_.begin());
    if (ranks_.empty()) continue;
    if (signal == SIGKILL) {
      kill_descendants();
      end_steps_.push_back({now + kKillAgain, SIGKILL});
      return;
    }
    for (auto& rank : ranks_) {
      rank->signal(signal, false);
      rank->signal(SIGCONT, false);
    }
  }
}

void Agent::lose_home(const std::string& why) {
  base::log(base::LogLevel::kInfo, "the link to hvrun is gone (" + why + "); ending the ranks");
  home_.reset();
  exit_code_ = kAgentLostHome;
  for (auto& rank : ranks_) rank->discard_output();
  end_ranks(SIGTERM, grace_);
}

void Agent::fail_job(const std::string& why) { fail_job(why, grace_); }

void Agent::fail_job(const std::string& why, Millis grace) {
  exit_code_ = 1;
  base::Error error{base::Code::kPeerLost, why, {}, 0};
  send(rendezvous::AgentFault{rendezvous::to_wire(error)});
  end_ranks(SIGTERM, grace);
}

std::int64_t Agent::clock_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - started_).count();
}

template <class Message>
void Agent::send(const Message& message) {
  if (home_) home_->send(rendezvous::encode(message));
}

}  // namespace hv::launcher
