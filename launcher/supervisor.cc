#include "launcher/supervisor.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "launcher/heartbeats.h"
#include "launcher/input_flow.h"
#include "launcher/job_state.h"
#include "launcher/job_story.h"
#include "launcher/launch_order.h"
#include "launcher/output_flow.h"
#include "launcher/recorders.h"
#include "launcher/relays.h"
#include "launcher/slowest_rank.h"
#include "launcher/timeline.h"
#include "launcher/user_signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/codec.h"
#include "rendezvous/contract.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {

namespace {

namespace asio = boost::asio;
using base::Clock;
using base::Error;
using base::LogLevel;
using rendezvous::AgentLink;
using rendezvous::Frame;
using rendezvous::MsgType;
using namespace std::chrono_literals;

// A broken link and the end of its agent are one event; the end tells more.
constexpr auto kUntilEndIsKnown = 200ms;
// Beyond a beat: silence is looked at once per beat.
constexpr auto kUntilRelayIsKnown = 500ms;
// Between the order to stop and our own stop, for the order to leave.
constexpr auto kBeforeStop = 50ms;
constexpr auto kToEndByThemselves = 1s;
// Sent one after the other, so that the clocks are known before the ranks run.
constexpr std::size_t kFirstBeats = 5;

std::int64_t wall_clock_ms() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void log_info(const std::string& line) { base::log(LogLevel::kInfo, line); }

class Supervisor : private rendezvous::ServerEvents {
 public:
  Supervisor(asio::io_context& io, Job job)
      : io_(io),
        job_(std::move(job)),
        secret_(rendezvous::Secret::random()),
        name_(rendezvous::Secret::random().hex().substr(0, 8)),
        state_(job_.plan,
               {job_.spec.start_timeout, job_.spec.grace, job_.spec.lost_after,
                job_.spec.preemption.exit_code},
               Clock::now()),
        hosts_(job_.plan.hosts.size()),
        relays_(hosts_.size(), job_.spec.fanout),
        heartbeats_(hosts_.size(), job_.spec.beat, job_.spec.lost_after, Heartbeats::Now::read()),
        output_(io, job_.plan, job_.spec.prefix, job_.spec.show_ranks, std::move(job_.files),
                output_events()),
        recorders_(io, job_.plan,
                   [this](const rendezvous::RecorderQuery& query) { send_all(query); }),
        timeline_(io, job_.plan, [this](const rendezvous::Tracing& tracing) { send_all(tracing); }),
        input_(io, input_ranks(job_.spec, job_.plan.size),
               [this](const rendezvous::Stdin& input) { send(host_of(input.rank), input); }),
        story_(name_, job_.plan, Clock::now(), wall_clock_ms()),
        signals_(io, [this](int signal) { on_signal(signal); }),
        deadline_timer_(io),
        beat_timer_(io) {
    for (const auto& host : job_.plan.hosts) {
      host_of_rank_.insert(host_of_rank_.end(), host.ranks.size(), host.index);
    }
  }

  base::Result<JobOutcome> run() {
    auto opened = open_server();
    if (!opened) return base::fail(opened.error());
    if (!job_.spec.timeline.empty()) {
      auto started = timeline_.start(job_.spec.timeline, job_.spec.timeline_mark_cycles);
      if (!started) return base::fail(started.error());
    }
    for (auto& group : job_.spawners) start_spawner(group);
    arm_deadline();
    arm_beat();
    io_.run();
    recorders_.settle();
    story_.ended(Clock::now());
    JobOutcome outcome{state_.exit_code(),
                       state_.cause(),
                       state_.consequences(),
                       operations_,
                       state_.preempted(),
                       story_.slowest(job_.spec.verbose),
                       {}};
    if (!job_.wants_story) return outcome;
    outcome.story = story_.json(job_.plan, job_.spec.argv, outcome.exit_code, outcome.cause,
                                outcome.consequences);
    return outcome;
  }

 private:
  struct Host {
    std::shared_ptr<AgentLink> link;
    HostFacts facts;
    bool ended = false;
  };

  // ---- start -------------------------------------------------------------------------------

  base::Result<void> open_server() {
    bool all_local = std::ranges::all_of(job_.plan.hosts, &HostPlan::local);
    rendezvous::Server::Options options;
    options.listen = {all_local, {}, job_.spec.port_low, job_.spec.port_high};
    auto server = rendezvous::Server::open(io_, secret_, *this, options);
    if (!server) return base::fail(server.error());
    server_ = std::move(*server);
    server_->begin_epoch(job_.plan.epoch, job_.plan.size);
    return {};
  }

  // Local agents keep the stream that they were started with as their link.
  AgentTicket make_ticket(const SpawnGroup& group) const {
    AgentTicket ticket{
        name_, {}, secret_, 0, rendezvous::build_id(), lost_after_ms(), hosts_.size() == 1};
    if (group.has_streams && std::ranges::all_of(group.hosts, &HostPlan::local)) return ticket;
    ticket.servers = server_->endpoints();
    if (!job_.spec.advertise_address.empty()) {
      ticket.servers = {{job_.spec.advertise_address, ticket.servers.front().port}};
    }
    return ticket;
  }

  OutputFlow::Events output_events() {
    return {.on_credit =
                [this](int rank, std::uint32_t bytes) {
                  send(host_of(rank), rendezvous::OutputCredit{rank, bytes});
                },
            .on_idle =
                [this] {
                  if (state_.phase() == Phase::kDone) io_.stop();
                }};
  }

  void start_spawner(SpawnGroup& group) {
    SpawnEvents events;
    events.on_running = [this](std::uint32_t host) {
      log_info("agent started on " + host_name(host));
    };
    events.on_stream = [this](std::uint32_t, rendezvous::Server::ByteStream stream) {
      return server_->adopt(std::move(stream));
    };
    events.on_ended = [this](std::uint32_t host, base::Result<int> code) {
      on_agent_ended(host, code);
    };
    asio::co_spawn(io_, group.spawner->run(group.hosts, make_ticket(group), std::move(events)),
                   asio::detached);
  }

  // ---- events ------------------------------------------------------------------------------

  void feed(const Event& event) {
    for (const auto& action : state_.on(event, Clock::now())) carry_out(action);
    arm_deadline();
  }

  void on_agent(std::shared_ptr<AgentLink> link, const rendezvous::AgentHello& hello) override {
    auto index = hello.host_index;
    if (index >= hosts_.size()) return link->close();
    const bool moved = relays_.is_moving(index);
    Host& host = hosts_[index];
    if (host.link && !moved) return link->close();
    if (hello.build_id != rendezvous::build_id()) {
      link->close();
      return feed({.kind = EventKind::kHostLost,
                   .host = index,
                   .error = {base::Code::kProtocol,
                             "hvagent has build " + hello.build_id + ", hvrun has " +
                                 rendezvous::build_id() + "; install the same version",
                             {},
                             0}});
    }
    if (auto old = std::exchange(host.link, std::move(link))) old->close();
    host.facts.hello = hello;
    if (auto remote = rendezvous::parse_endpoint(host.link->remote())) {
      host.facts.seen_as = remote->address;
    }
    heartbeats_.heard(index, Heartbeats::Now::read());
    take(moved ? relays_.on_moved(index) : relays_.on_hello(index, !hello.reached_from.empty()));
  }

  void take(const Relays::Steps& steps) {
    for (const auto& step : steps) {
      switch (step.kind) {
        case Relays::Step::Kind::kSettle:
          welcome(step.host);
          break;
        case Relays::Step::Kind::kOpen:
          send(step.host, rendezvous::OpenRelay{job_.spec.port_low, job_.spec.port_high});
          break;
        case Relays::Step::Kind::kMove:
          send(step.host, rendezvous::UseRelay{step.relay, step.endpoints});
          break;
      }
    }
  }

  void welcome(std::uint32_t index) {
    const Host& host = hosts_[index];
    if (!host.link) return;
    auto relay = relays_.relay_of(index);
    auto way = relay ? "relay " + host_name(*relay) : host.link->remote();
    log_info("agent of " + host_name(index) + " is up, by " + way + ", pid " +
             std::to_string(host.facts.hello.pid));
    send(index, rendezvous::AgentWelcome{name_, static_cast<std::uint32_t>(job_.spec.beat.count()),
                                         lost_after_ms(),
                                         static_cast<std::uint32_t>(job_.spec.grace.count())});
    if (auto tracing = timeline_.tracing()) send(index, *tracing);
    beat(index);
    story_.agent_up(index, host.facts.hello, way, Clock::now());
    feed({.kind = EventKind::kAgentUp, .host = index});
  }

  void on_frame(AgentLink& link, Frame frame) override {
    auto index = host_of(link);
    if (!index) return;
    heartbeats_.heard(*index, Heartbeats::Now::read());
    using namespace rendezvous;
    base::Result<void> handled =
        frame.type == PreflightReply::kType    ? handle<PreflightReply>(*index, frame)
        : frame.type == RankStarted::kType     ? handle<RankStarted>(*index, frame)
        : frame.type == RankExited::kType      ? handle<RankExited>(*index, frame)
        : frame.type == Output::kType          ? handle<Output>(*index, frame)
        : frame.type == InputTaken::kType      ? handle<InputTaken>(*index, frame)
        : frame.type == AgentDone::kType       ? handle<AgentDone>(*index, frame)
        : frame.type == AgentFault::kType      ? handle<AgentFault>(*index, frame)
        : frame.type == RecorderReply::kType   ? handle<RecorderReply>(*index, frame)
        : frame.type == Traced::kType          ? handle<Traced>(*index, frame)
        : frame.type == SchedulerSignal::kType ? handle<SchedulerSignal>(*index, frame)
        : frame.type == RelayOpened::kType     ? handle<RelayOpened>(*index, frame)
        : frame.type == NotRelayed::kType      ? handle<NotRelayed>(*index, frame)
        : frame.type == Beat::kType
            ? handle<Beat>(*index, frame)
            : base::fail(base::Code::kProtocol, "hvagent sent a frame of unknown type");
    if (!handled) lose(*index, handled.error());
  }

  template <class Message>
  base::Result<void> handle(std::uint32_t host, const Frame& frame) {
    auto message = rendezvous::decode<Message>(frame.body);
    if (!message) return base::fail(message.error());
    if constexpr (requires { message->rank; }) {
      if (message->rank < 0 || message->rank >= job_.plan.size || host_of(message->rank) != host) {
        return base::fail(base::Code::kProtocol, "hvagent spoke of a rank that it does not have");
      }
    }
    on_message(host, *message);
    return {};
  }

  void on_message(std::uint32_t host, const rendezvous::PreflightReply& reply) {
    hosts_[host].facts.preflight = reply;
    Event event{.kind = EventKind::kPreflightOk, .host = host};
    if (!reply.errors.empty()) event.kind = EventKind::kPreflightBad;
    for (const auto& error : reply.errors) event.errors.push_back(rendezvous::from_wire(error));
    auto nics = diagnose::why_none(job_.spec.nics, hosts_[host].facts.hello.interfaces);
    if (hosts_.size() > 1 && !nics.empty()) {
      event.kind = EventKind::kPreflightBad;
      event.errors.push_back({base::Code::kUsage, std::move(nics), {}, 0});
    }
    feed(event);
  }

  void on_message(std::uint32_t host, const rendezvous::RankStarted& started) {
    log_info("rank " + std::to_string(started.rank) + " runs on " + host_name(host) + ", pid " +
             std::to_string(started.pid) + ", " + started.cpus);
    story_.rank_started(started, Clock::now());
    if (job_.spec.report_bindings) {
      job_.say("rank " + std::to_string(started.rank) + " on " + host_name(host) + ": " +
               started.cpus);
    }
    feed({.kind = EventKind::kRankStarted, .host = host, .rank = started.rank, .pid = started.pid});
  }

  void on_message(std::uint32_t host, const rendezvous::RankExited& exited) {
    input_.gone(exited.rank);
    story_.rank_exited(exited, Clock::now());
    feed({.kind = EventKind::kRankExited, .host = host, .rank = exited.rank, .exited = exited});
  }

  void on_message(std::uint32_t, const rendezvous::Output& output) { output_.add(output); }

  void on_message(std::uint32_t, const rendezvous::InputTaken& taken) {
    input_.taken(taken.rank, taken.bytes);
  }

  void on_message(std::uint32_t host, const rendezvous::AgentDone&) {
    feed({.kind = EventKind::kHostDone, .host = host});
  }

  void on_message(std::uint32_t host, const rendezvous::AgentFault& fault) {
    feed({.kind = EventKind::kAgentFault,
          .host = host,
          .error = rendezvous::from_wire(fault.error)});
  }

  void on_message(std::uint32_t host, const rendezvous::Traced& traced) {
    timeline_.on_traced(host, traced);
  }

  // Its number is our clock when the beat was sent.
  void on_message(std::uint32_t host, const rendezvous::Beat& reply) {
    auto& clock = timeline_.clock(host);
    clock.add(static_cast<std::int64_t>(reply.number), steady_us(), reply.clock_us);
    if (clock.samples() < kFirstBeats) beat(host);
  }

  void on_message(std::uint32_t, const rendezvous::RecorderReply& reply) {
    recorders_.on_reply(reply);
  }

  void on_message(std::uint32_t host, const rendezvous::SchedulerSignal& sent) {
    log_info("the ranks on " + host_name(host) + " got " + signal_name(sent.signal) +
             " from the scheduler");
    if (asks_to_end(sent.signal)) feed({.kind = EventKind::kPreempted, .signal = sent.signal});
  }

  void on_message(std::uint32_t host, const rendezvous::RelayOpened& opened) {
    if (opened.endpoints.empty()) {
      log_info(host_name(host) + " relays no links: " + opened.error.text);
    }
    take(relays_.on_opened(host, opened.endpoints));
  }

  void on_message(std::uint32_t host, const rendezvous::NotRelayed& why) {
    log_info(host_name(host) + " keeps a link of its own: " + why.error.text);
    take(relays_.on_stays(host));
  }

  // A signal by which a scheduler says that the job should save what it has and go.
  bool asks_to_end(int signal) const {
    const auto& signals = job_.spec.preemption.signals;
    return job_.spec.slurm && std::ranges::find(signals, signal) != signals.end();
  }

  void on_agent_closed(AgentLink& link, const Error& why) override {
    auto index = host_of(link);
    if (!index) return;
    hosts_[*index].link.reset();
    take(relays_.on_gone(*index));
    Event lost{.kind = EventKind::kHostLost, .host = *index, .error = why};
    if (auto relay = relays_.relay_of(*index)) {
      lost.error.text = "its link, relayed by " + host_name(*relay) + ", broke: " + why.text;
    }
    after(kUntilEndIsKnown, [this, lost] {
      if (!hosts_[lost.host].ended) feed(lost);
    });
  }

  void on_agent_ended(std::uint32_t host, const base::Result<int>& code) {
    hosts_[host].ended = true;
    hosts_[host].link.reset();
    take(relays_.on_gone(host));
    Event event{.kind = EventKind::kAgentEnded, .host = host};
    if (code) {
      event.error = {base::Code::kPeerLost,
                     *code > 128 ? "hvagent was killed by " + signal_name(*code - 128)
                                 : "hvagent ended with code " + std::to_string(*code),
                     {},
                     0};
    } else {
      event.error = code.error();
    }
    // Of itself an agent ends when its relay does, or is silent: that will show, and is the cause.
    const bool may_follow = relays_.relay_of(host) && code && *code == kAgentLostHome;
    if (!may_follow || state_.phase() == Phase::kReleasing) return feed(event);
    after(job_.spec.beat + kUntilRelayIsKnown, [this, event] { feed(event); });
  }

  void on_rank_hello(const rendezvous::RankHello&) override {}
  void on_rank_refused(const rendezvous::RankHello& hello, const Error& why) override {
    base::log(LogLevel::kWarning, "turned away process " + std::to_string(hello.pid) +
                                      ", which claimed to be rank " + std::to_string(hello.rank) +
                                      ": " + why.text);
  }
  void on_rank_joined(int rank, std::uint32_t generation) override {
    feed({.kind = EventKind::kRankJoined, .rank = rank, .generation = generation});
  }
  void on_rank_left(int rank) override { feed({.kind = EventKind::kRankLeft, .rank = rank}); }
  void on_rank_fault(int rank, const Error& why) override {
    log_info("rank " + std::to_string(rank) + " reports: " + why.text);
    feed({.kind = EventKind::kRankFault, .rank = rank, .error = why});
  }
  void on_rank_lost(int) override {}  // its exit, which the agent reports, says how

  // As with Horovod rank 0 decides, whatever other ranks ask for.
  bool on_timeline_request(int rank, const rendezvous::TimelineRequest& request,
                           Question question) override {
    auto answer = [this, question](const base::Result<void>& result) {
      server_->answer(question, result);
    };
    if (rank != 0) {
      answer({});
    } else if (request.on) {
      answer(timeline_.start(request.path, request.mark_cycles));
    } else {
      timeline_.stop(answer);
    }
    return true;
  }

  // Every rank that waits says so; one answer is enough for all of them.
  void on_rank_stalled(int rank, const rendezvous::RankStall& stall) override {
    if (!stall.shutdown && Clock::now() < quiet_about_stalls_until_) return;
    quiet_about_stalls_until_ = Clock::now() + base::Millis(stall.period_ms / 2);
    recorders_.ask([this, rank, stall](const std::vector<RankPicture>& ranks) {
      std::string text = describe_wait(ranks);
      if (text.empty()) text = stall.operation + " of rank " + std::to_string(rank) + " waits";
      if (!stall.shutdown) return base::log(LogLevel::kWarning, "stalled: " + text);
      const auto limit = std::to_string(stall.waited_ms / 1000) + " s";
      feed({.kind = EventKind::kStalled,
            .error = {base::Code::kTimeout,
                      "ended after a stall of " + limit + " (HVRUN_STALL_SHUTDOWN_TIME): " + text,
                      {},
                      0}});
    });
  }

  void on_signal(int signal) {
    if (asks_to_end(signal)) {  // the agents know whether Slurm has told the ranks already
      send_all(rendezvous::SignalRanks{signal, false});
      return feed({.kind = EventKind::kPreempted, .signal = signal});
    }
    switch (signal) {
      case SIGUSR1:
      case SIGUSR2:
        return send_all(rendezvous::SignalRanks{signal, false});
      case SIGQUIT:  // Ctrl-\, for who wonders whether it goes on
        return recorders_.ask([](const std::vector<RankPicture>& ranks) {
          base::log(LogLevel::kWarning, describe_ranks(ranks));
        });
      case SIGTSTP:
        return pause();
      case SIGCONT:
        heartbeats_.heard_all(Heartbeats::Now::read());
        return send_all(rendezvous::SignalRanks{SIGCONT, true});
      default:
        if (state_.phase() == Phase::kDone) return io_.stop();  // a terminal that takes no more
        if (state_.phase() == Phase::kEnding) {
          output_.discard();
        }
        return feed({.kind = EventKind::kInterrupt, .signal = signal});
    }
  }

  // Ctrl-Z: the ranks stop first. Their agents expect no beat until they hear from us again.
  void pause() {
    send_all(rendezvous::SignalRanks{SIGTSTP, true});
    after(kBeforeStop, [] { ::raise(SIGSTOP); });
  }

  // ---- actions -----------------------------------------------------------------------------

  void carry_out(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kPreflight:
        return send(action.host, make_preflight(job_.spec, job_.environment, action.host == 0));
      case Action::Kind::kLaunch:
        return launch();
      case Action::Kind::kFailEpoch:
        // What the ranks are at is asked for before it changes. A stall has been told already.
        if (state_.cause()->kind != Cause::Kind::kStalled) {
          recorders_.ask([this](const std::vector<RankPicture>& ranks) {
            operations_ = describe_wait(ranks);
          });
        }
        return server_->fail_epoch(action.rank, action.error);
      case Action::Kind::kEndRanks:
        return end_ranks({action.signal, static_cast<std::uint32_t>(action.grace.count())});
      case Action::Kind::kRelease:
        return send_all(rendezvous::Release{});
      case Action::Kind::kStopHosts:
        for (auto& group : job_.spawners) group.spawner->stop();
        return;
      case Action::Kind::kFinish:
        if (output_.idle()) io_.stop();
        return;
    }
  }

  // After a stall the ranks are well: they get the error, and a moment to end by themselves.
  void end_ranks(const rendezvous::EndRanks& order) {
    if (state_.cause()->kind != Cause::Kind::kStalled || order.grace_ms == 0) {
      return send_all(order);
    }
    after(kToEndByThemselves, [this, order] { send_all(order); });
  }

  void launch() {
    std::vector<HostFacts> facts;
    for (const auto& host : hosts_) facts.push_back(host.facts);
    diagnose::NicPlan nics;
    if (hosts_.size() > 1) nics = make_nic_plan(job_.spec, job_.plan, job_.environment, facts);
    for (const auto& note : nics.notes) log_info(note);
    for (const auto& warning : nics.warnings) base::log(LogLevel::kWarning, warning);
    auto orders = make_launch_orders(job_.spec, job_.plan, job_.environment, facts, nics, name_,
                                     server_->rank_secret());
    for (const auto& host : job_.plan.hosts) {
      orders[host.index].output_credit = output_.window();
      for (const auto& line : describe_cards(host, facts[host.index], orders[host.index])) {
        log_info(line);
      }
      send(host.index, orders[host.index]);
    }
    story_.launched(Clock::now());
    input_.start();
  }

  template <class Message>
  void send(std::uint32_t host, const Message& message) {
    if (hosts_[host].link) hosts_[host].link->send(rendezvous::encode(message));
  }
  // A relay comes before those behind it and gets it after them: Release is the last it passes on.
  template <class Message>
  void send_all(const Message& message) {
    for (auto host = static_cast<std::uint32_t>(hosts_.size()); host-- > 0;) send(host, message);
  }

  // ---- clocks ------------------------------------------------------------------------------

  void arm_deadline() {
    if (state_.deadline() == armed_) return;
    armed_ = state_.deadline();
    deadline_timer_.cancel();
    if (armed_ == Clock::time_point::max()) return;
    deadline_timer_.expires_at(armed_);
    deadline_timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      armed_ = {};
      feed({.kind = EventKind::kTimeUp});
    });
  }

  void arm_beat() {
    beat_timer_.expires_after(job_.spec.beat);
    beat_timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      auto now = Heartbeats::Now::read();
      heartbeats_.begin_round(now);
      for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
        if (!hosts_[host].link) continue;
        auto silence = heartbeats_.silence(host, now);
        if (silence && !behind_quiet_relay(host, now)) {
          lose(host, *silence);
        } else {
          beat(host);
        }
      }
      look_for_slowest();
      arm_beat();
    });
  }

  void look_for_slowest() {
    auto now = Clock::now();
    auto since = std::chrono::duration_cast<base::Millis>(now - looked_);
    if (job_.spec.slowest_every.count() == 0 || since < job_.spec.slowest_every) return;
    looked_ = now;
    recorders_.ask([this, since](const std::vector<RankPicture>& ranks) {
      std::vector<RankWait> waits;
      for (const auto& [host, known, view] : ranks) {
        if (known) waits.push_back({view.rank, host, view.finished, view.waited_us});
      }
      if (auto line = slowest_.look(waits, since)) base::log(LogLevel::kWarning, *line);
    });
  }

  // Whose silence explains this host's, and is about to be told.
  bool behind_quiet_relay(std::uint32_t host, const Heartbeats::Now& now) const {
    for (auto relay = relays_.relay_of(host); relay; relay = relays_.relay_of(*relay)) {
      if (hosts_[*relay].link && heartbeats_.is_quiet(*relay, now)) return true;
    }
    return false;
  }

  void beat(std::uint32_t host) {
    send(host, rendezvous::Beat{static_cast<std::uint64_t>(steady_us()), false, 0});
  }

  void lose(std::uint32_t index, Error why) {
    if (auto link = std::exchange(hosts_[index].link, nullptr)) link->close();
    take(relays_.on_gone(index));
    feed({.kind = EventKind::kHostLost, .host = index, .error = std::move(why)});
  }

  // ---- small things ------------------------------------------------------------------------

  template <class Then>
  void after(base::Millis time, Then then) {
    auto timer = std::make_shared<asio::steady_timer>(io_, time);
    timer->async_wait([timer, then](boost::system::error_code) { then(); });
  }

  std::uint32_t host_of(int rank) const { return host_of_rank_[static_cast<std::size_t>(rank)]; }
  std::optional<std::uint32_t> host_of(const AgentLink& link) const {
    for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].link.get() == &link) return i;
    }
    return std::nullopt;
  }
  const std::string& host_name(std::uint32_t host) const { return job_.plan.hosts[host].host.name; }
  std::uint32_t lost_after_ms() const {
    return static_cast<std::uint32_t>(job_.spec.lost_after.count());
  }

  asio::io_context& io_;
  Job job_;
  rendezvous::Secret secret_;
  std::string name_;  // of the job, for people
  JobState state_;
  std::unique_ptr<rendezvous::Server> server_;
  std::vector<Host> hosts_;
  Relays relays_;
  Heartbeats heartbeats_;
  std::vector<std::uint32_t> host_of_rank_;
  OutputFlow output_;
  Recorders recorders_;
  std::string operations_;
  Clock::time_point quiet_about_stalls_until_{};
  Timeline timeline_;
  InputFlow input_;
  JobStory story_;
  SlowestWatch slowest_;
  Clock::time_point looked_ = Clock::now();  // for the slowest
  UserSignals signals_;
  asio::steady_timer deadline_timer_, beat_timer_;
  Clock::time_point armed_{};
};

}  // namespace

base::Result<JobOutcome> run_job(asio::io_context& io, Job job) {
  return Supervisor(io, std::move(job)).run();
}

}  // namespace hv::launcher
