#include "launcher/survey.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

#include "launcher/user_signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/contract.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {

namespace {

namespace asio = boost::asio;
using base::Code;
using base::Deadline;
using base::Error;
using base::Result;
using rendezvous::AgentLink;
using rendezvous::Frame;
using namespace std::chrono_literals;

// For agents to say goodbye once they are released; then they are ended.
constexpr auto kToEnd = 3s;
// A broken link and the end of its agent are one event; the end tells more.
constexpr auto kUntilEndIsKnown = 200ms;

std::string seconds(base::Millis time) {
  return std::to_string(time.count() / 1000) + "." + std::to_string(time.count() % 1000 / 100) +
         " s";
}

class Surveyor final : public Survey, private rendezvous::ServerEvents {
 public:
  Surveyor(asio::io_context& io, const JobSpec& spec, const Plan& plan,
           std::vector<SpawnGroup> spawners)
      : io_(io),
        spec_(spec),
        plan_(plan),
        spawners_(std::move(spawners)),
        secret_(rendezvous::Secret::random()),
        hosts_(plan.hosts.size()),
        signals_(io, [this](int signal) { on_signal(signal); }),
        changed_(io),
        beat_timer_(io) {}

  Result<SurveyEnd> run(std::function<Task<void>(Survey&)> work) {
    bool all_local = std::ranges::all_of(plan_.hosts, &HostPlan::local);
    rendezvous::Server::Options options;
    options.listen = {all_local, {}, spec_.port_low, spec_.port_high};
    auto server = rendezvous::Server::open(io_, secret_, *this, options);
    if (!server) return base::fail(server.error());
    server_ = std::move(*server);
    for (auto& group : spawners_) start_spawner(group);
    arm_beat();
    work_ = std::move(work);
    asio::co_spawn(io_, whole(), asio::detached);
    io_.run();
    return SurveyEnd{interrupted_by_};
  }

  Task<PerHost<Result<HostFacts>>> gather() override {
    co_await until([](const Host& host) { return host.link || host.error; },
                   Deadline::after(spec_.start_timeout));
    PerHost<Result<HostFacts>> facts;
    for (auto& host : hosts_) {
      if (!host.link && !host.error) {
        host.error =
            Error{Code::kTimeout, "hvagent is not up within " + seconds(spec_.start_timeout) +
                                      "; is the host up, and can you log in there with ssh?"};
      }
      facts.push_back(host.error ? Result<HostFacts>(base::fail(*host.error)) : host.facts);
    }
    co_return facts;
  }

  base::Clock::duration answered_after(std::size_t host) const override {
    return hosts_[host].answered_at - hosts_[host].asked_at;
  }

 private:
  struct Host {
    std::shared_ptr<AgentLink> link;
    HostFacts facts;
    bool ended = false;
    bool asked = false;  // and has not answered
    base::Clock::time_point asked_at, answered_at;
    std::optional<Frame> reply;
    std::optional<Error> error;  // for good
  };

  Task<PerHost<Result<Frame>>> exchange(PerHost<std::optional<Frame>> orders,
                                        base::Millis limit) override {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      Host& host = hosts_[i];
      if (!host.link && !host.error) host.error = Error{Code::kPeerLost, "the way to it broke"};
      host.reply.reset();
      host.asked = orders[i] && !host.error;
      if (!host.asked) continue;
      host.asked_at = base::Clock::now();
      host.link->send(
          rendezvous::encode(rendezvous::ToProber{orders[i]->type, std::move(orders[i]->body)}));
    }
    co_await until([](const Host& host) { return !host.asked || host.error; },
                   Deadline::after(limit));
    PerHost<Result<Frame>> replies;
    for (std::size_t i = 0; i < hosts_.size(); ++i) replies.push_back(reply_of(i, limit));
    co_return replies;
  }

  // Whoever is too late is not asked again: its answer would be taken for that of the next order.
  Result<Frame> reply_of(std::size_t index, base::Millis limit) {
    Host& host = hosts_[index];
    if (host.asked && !host.error) {
      host.error = Error{Code::kTimeout, "no answer within " + seconds(limit)};
    }
    if (host.error) return base::fail(*host.error);
    if (!host.reply) return base::fail(Code::kAborted, "was not asked");
    return std::move(*host.reply);
  }

  Task<void> whole() {
    co_await work_(*this);
    for (auto& host : hosts_) {
      if (host.link) host.link->send(rendezvous::encode(rendezvous::Release{}));
    }
    co_await end_agents();
  }

  Task<void> end_agents() {
    auto ended = [](const Host& host) { return host.ended; };
    // One that is still being started is not waited for.
    bool any_starting = std::ranges::any_of(hosts_, [](auto& h) { return !h.link && !h.ended; });
    if (!any_starting) co_await until(ended, Deadline::after(kToEnd));
    for (auto& group : spawners_) group.spawner->stop();
    co_await until(ended, Deadline::after(kToEnd));
    io_.stop();
  }

  // Until it holds for every host.
  Task<void> until(bool (*holds)(const Host&), Deadline deadline) {
    while (!std::ranges::all_of(hosts_, holds) && !deadline.passed()) {
      changed_.expires_at(deadline.time());
      boost::system::error_code ignored;
      co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

  void start_spawner(SpawnGroup& group) {
    auto lost_after = static_cast<std::uint32_t>(spec_.lost_after.count());
    AgentTicket ticket{"survey",          {}, secret_, 0, rendezvous::build_id(), lost_after,
                       hosts_.size() == 1};
    if (!group.has_streams || !std::ranges::all_of(group.hosts, &HostPlan::local)) {
      ticket.servers = server_->endpoints();
      if (!spec_.advertise_address.empty()) {
        ticket.servers = {{spec_.advertise_address, ticket.servers.front().port}};
      }
    }
    SpawnEvents events;
    events.on_running = [](std::uint32_t) {};
    events.on_stream = [this](std::uint32_t, rendezvous::Server::ByteStream stream) {
      return server_->adopt(std::move(stream));
    };
    events.on_ended = [this](std::uint32_t host, const Result<int>& code) {
      hosts_[host].ended = true;
      hosts_[host].link.reset();
      fail(host, code ? Error{Code::kPeerLost, "hvagent ended with code " + std::to_string(*code)}
                      : code.error());
    };
    asio::co_spawn(io_, group.spawner->run(group.hosts, ticket, std::move(events)), asio::detached);
  }

  void fail(std::size_t host, Error why) {
    if (!hosts_[host].error) hosts_[host].error = std::move(why);
    changed_.cancel();
  }

  void on_agent(std::shared_ptr<AgentLink> link, const rendezvous::AgentHello& hello) override {
    if (hello.host_index >= hosts_.size()) return link->close();
    Host& host = hosts_[hello.host_index];
    if (host.link || host.error || hello.build_id != rendezvous::build_id()) return link->close();
    host.link = std::move(link);
    host.facts.hello = hello;
    if (auto remote = rendezvous::parse_endpoint(host.link->remote())) {
      host.facts.seen_as = remote->address;
    }
    base::log(base::LogLevel::kInfo, "agent of " + plan_.hosts[hello.host_index].host.name +
                                         " is up, by " + host.link->remote());
    host.link->send(rendezvous::encode(
        rendezvous::AgentWelcome{"survey", static_cast<std::uint32_t>(spec_.beat.count()),
                                 static_cast<std::uint32_t>(spec_.lost_after.count()), 0}));
    changed_.cancel();
  }

  void on_frame(AgentLink& link, Frame frame) override {
    auto host = std::ranges::find(hosts_, &link, [](const Host& h) { return h.link.get(); });
    if (host == hosts_.end()) return;
    auto index = static_cast<std::size_t>(host - hosts_.begin());
    if (frame.type == rendezvous::AgentFault::kType) {
      auto fault = rendezvous::decode<rendezvous::AgentFault>(frame.body);
      return fail(index, fault ? rendezvous::from_wire(fault->error) : fault.error());
    }
    if (frame.type != rendezvous::FromProber::kType) return;
    auto from = rendezvous::decode<rendezvous::FromProber>(frame.body);
    if (!from) return fail(index, from.error());
    if (from->type == rendezvous::MsgType::kInvalid) {
      return fail(index, {Code::kPeerLost, "the prober has ended before it answered"});
    }
    host->reply = Frame{from->type, std::move(from->body)};
    host->asked = false;
    host->answered_at = base::Clock::now();
    changed_.cancel();
  }

  void on_agent_closed(AgentLink& link, const Error& why) override {
    auto host = std::ranges::find(hosts_, &link, [](const Host& h) { return h.link.get(); });
    if (host == hosts_.end()) return;
    host->link.reset();
    auto timer = std::make_shared<asio::steady_timer>(io_, kUntilEndIsKnown);
    auto index = static_cast<std::size_t>(host - hosts_.begin());
    timer->async_wait([this, timer, index, why](boost::system::error_code) { fail(index, why); });
  }

  void on_rank_hello(const rendezvous::RankHello&) override {}
  void on_rank_refused(const rendezvous::RankHello&, const Error&) override {}
  void on_rank_joined(int, std::uint32_t) override {}
  void on_rank_left(int) override {}
  void on_rank_fault(int, const Error&) override {}
  void on_rank_lost(int) override {}

  void on_signal(int signal) {
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return;
    if (interrupted_by_ != 0) return io_.stop();
    interrupted_by_ = signal;
    for (std::size_t i = 0; i < hosts_.size(); ++i) fail(i, {Code::kAborted, "interrupted"});
  }

  void arm_beat() {
    beat_timer_.expires_after(spec_.beat);
    beat_timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      for (auto& host : hosts_) {
        if (host.link) host.link->send(rendezvous::encode(rendezvous::Beat{++beat_, false, 0}));
      }
      arm_beat();
    });
  }

  asio::io_context& io_;
  const JobSpec& spec_;
  const Plan& plan_;
  std::vector<SpawnGroup> spawners_;
  rendezvous::Secret secret_;
  std::unique_ptr<rendezvous::Server> server_;
  std::vector<Host> hosts_;
  UserSignals signals_;
  asio::steady_timer changed_;  // never expires by itself: cancelled when a host has news
  asio::steady_timer beat_timer_;
  std::uint64_t beat_ = 0;
  std::function<Task<void>(Survey&)> work_;
  int interrupted_by_ = 0;
};

}  // namespace

Result<SurveyEnd> run_survey(asio::io_context& io, const JobSpec& spec, const Plan& plan,
                             std::vector<SpawnGroup> spawners,
                             std::function<Survey::Task<void>(Survey&)> work) {
  return Surveyor(io, spec, plan, std::move(spawners)).run(std::move(work));
}

}  // namespace hv::launcher
