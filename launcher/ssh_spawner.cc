#include "launcher/ssh_spawner.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>

#include "launcher/process_agent.h"
#include "launcher/ssh_session.h"
#include "launcher/ssh_worker.h"
#include "rendezvous/base/log.h"

namespace hv::launcher {

namespace asio = boost::asio;

namespace {

// What the OpenSSH client says when the server, or one on the way, has closed the connection before
// authentication; and what it says when that has another reason.
bool tells_of_shed_load(std::string_view said) {
  auto says = [&](std::string_view words) { return said.find(words) != said.npos; };
  if (says("connect to host") || says("Could not resolve") || says("Permission denied") ||
      says("verification failed")) {
    return false;
  }
  return says("kex_exchange_identification") || says("Connection reset by") || says("MaxStartups");
}

class SshSpawner : public Spawner {
 public:
  SshSpawner(asio::io_context& io, SshOptions options) : io_(io), options_(std::move(options)) {}

  asio::awaitable<void> run(std::vector<HostPlan> hosts, AgentTicket ticket,
                            SpawnEvents events) override {
    SpawnRun run(io_.get_executor(), hosts, std::move(events), options_.at_a_time);
    run_ = &run;
    ticket_ = std::move(ticket);
    deadline_ = base::Deadline::after(options_.start_timeout);
    for (const auto& host : hosts) {
      co_await run.may_start(host.index);
      auto target = make_ssh_target(host.host, options_.flags, options_.home);
      if (stopped_) {
        run.ended(host.index, aborted());
      } else if (!target) {
        run.ended(host.index, base::fail(target.error()));
      } else if (!target->client_needed.empty()) {
        start_client(host, *target, target->client_needed, std::make_shared<Jitter>());
      } else {
        start_session(host, *target);
      }
    }
    co_await run.all_ended();
    hosts_.clear();
  }

  void stop() override {
    stopped_ = true;
    for (auto& [index, host] : hosts_) {
      if (host.worker) host.worker->close();
      host.agent->stop();
    }
  }

 private:
  struct Host {
    std::shared_ptr<AgentStream> agent;
    std::shared_ptr<SshWorker> worker;  // none: the OpenSSH client
  };

  static base::Result<int> aborted() {
    return base::fail(base::Code::kAborted, "stopped by hvrun");
  }
  Bootstrap bootstrap(const HostPlan& host) const {
    return Bootstrap::over_shell(ticket_for(*ticket_, host), options_.program, make_nonce());
  }
  std::chrono::milliseconds time_left() const {
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.time() -
                                                                          base::Clock::now()),
                    std::chrono::milliseconds(0));
  }

  void start_session(const HostPlan& host, const SshTarget& target) {
    auto agent =
        std::make_shared<AgentStream>(io_.get_executor(), host, "ssh", bootstrap(host), *run_);
    auto& entry = hosts_[host.index];
    entry.agent = agent;
    entry.worker = SshWorker::start(
        io_.get_executor(), target, options_.connect_timeout, deadline_,
        {.on_open = [this, agent,
                     index = host.index] { agent->on_open(hosts_[index].worker, time_left()); },
         .on_output = [agent](base::ByteSpan bytes) { agent->on_output(bytes); },
         .on_diagnostics = [agent](base::ByteSpan bytes) { agent->on_diagnostics(bytes); },
         .on_end =
             [this, agent, host, target](base::Result<int> how) {
               if (!how && client_may_help(how.error()) && !stopped_) {
                 start_client(host, target, how.error().text, std::make_shared<Jitter>());
               } else {
                 agent->on_end(std::move(how));
               }
             }});
  }

  void start_client(const HostPlan& host, const SshTarget& target, const std::string& why,
                    std::shared_ptr<Jitter> jitter) {
    base::log(base::LogLevel::kInfo, host.host.name + ": using the OpenSSH client, because " + why);
    auto on_end = [this, host, target, why, jitter](const AgentStream& agent,
                                                    base::Result<int>& how) {
      if (!how) {  // there is no client
        how.error().text += "; the OpenSSH client is needed because " + why;
        return false;
      }
      if (*how != 255 || agent.running() || stopped_) return false;
      auto pause = jitter->next();
      if (pause >= time_left() || !tells_of_shed_load(agent.diagnostics())) return false;
      auto timer = std::make_shared<asio::steady_timer>(io_, pause);
      timer->async_wait([this, timer, host, target, why, jitter](boost::system::error_code) {
        if (stopped_) return run_->ended(host.index, aborted());
        start_client(host, target, why, jitter);
      });
      return true;
    };
    hosts_[host.index] = {
        start_process_agent(io_.get_executor(), host,
                            {client_command(target), bootstrap(host), on_end}, time_left(), *run_),
        nullptr};
  }

  std::vector<std::string> client_command(const SshTarget& target) const {
    auto argv = target.client_arguments;
    // The first of the options with one name wins, so the user's own come before these.
    argv.insert(argv.end() - 1, {"-o", "BatchMode=yes", "-o", "RemoteCommand=none", "-T"});
    if (!target.connect_timeout) {
      auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.connect_timeout).count();
      argv.insert(argv.end() - 1, {"-o", "ConnectTimeout=" + std::to_string(seconds)});
    }
    argv.emplace_back("/bin/sh");
    return argv;
  }

  asio::io_context& io_;
  SshOptions options_;
  SpawnRun* run_ = nullptr;  // of run(), which outlives all that is started in it
  std::optional<AgentTicket> ticket_;
  base::Deadline deadline_ = base::Deadline::never();
  std::map<std::uint32_t, Host> hosts_;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Spawner> make_ssh_spawner(asio::io_context& io, SshOptions options) {
  return std::make_unique<SshSpawner>(io, std::move(options));
}

}  // namespace hv::launcher
