#include "launcher/ssh_spawner.h"

#include <map>

#include "launcher/process_agent.h"
#include "launcher/ssh_session.h"
#include "launcher/ssh_worker.h"
#include "rendezvous/base/log.h"

namespace hv::launcher {

namespace asio = boost::asio;

namespace {

class SshSpawner : public Spawner {
 public:
  SshSpawner(asio::io_context& io, SshOptions options) : io_(io), options_(std::move(options)) {}

  asio::awaitable<void> run(std::vector<HostPlan> hosts, AgentTicket ticket,
                            SpawnEvents events) override {
    SpawnRun run(io_.get_executor(), hosts, std::move(events), options_.at_a_time);
    deadline_ = base::Deadline::after(options_.start_timeout);
    for (const auto& host : hosts) {
      co_await run.may_start(host.index);
      auto target = make_ssh_target(host.host, options_.flags, options_.home);
      if (stopped_) {
        run.ended(host.index, base::fail(base::Code::kAborted, "stopped by hvrun"));
      } else if (!target) {
        run.ended(host.index, base::fail(target.error()));
      } else if (!target->client_needed.empty()) {
        start_client(host, *target, target->client_needed, ticket, run);
      } else {
        start_session(host, *target, ticket, run);
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

  Bootstrap bootstrap(const HostPlan& host, const AgentTicket& ticket) const {
    return Bootstrap::over_shell(ticket_for(ticket, host), options_.program, make_nonce());
  }

  void start_session(const HostPlan& host, const SshTarget& target, const AgentTicket& ticket,
                     SpawnRun& run) {
    auto agent = std::make_shared<AgentStream>(io_.get_executor(), host, "ssh",
                                               bootstrap(host, ticket), run);
    auto& entry = hosts_[host.index];
    entry.agent = agent;
    entry.worker = SshWorker::start(
        io_.get_executor(), target, options_.connect_timeout, deadline_,
        {.on_open =
             [this, agent, index = host.index] {
               auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                   deadline_.time() - base::Clock::now());
               agent->on_open(hosts_[index].worker, left);
             },
         .on_output = [agent](base::ByteSpan bytes) { agent->on_output(bytes); },
         .on_diagnostics = [agent](base::ByteSpan bytes) { agent->on_diagnostics(bytes); },
         .on_end =
             [this, agent, host, target, ticket, &run](base::Result<int> how) {
               if (!how && client_may_help(how.error()) && !stopped_) {
                 start_client(host, target, how.error().text, ticket, run);
               } else {
                 agent->on_end(std::move(how));
               }
             }});
  }

  void start_client(const HostPlan& host, const SshTarget& target, const std::string& why,
                    const AgentTicket& ticket, SpawnRun& run) {
    base::log(base::LogLevel::kInfo, host.host.name + ": using the OpenSSH client, because " + why);
    auto argv = target.client_arguments;
    auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.connect_timeout).count();
    // First of the options with one name wins, so the user's own come before these.
    argv.insert(argv.end() - 1, {"-o", "BatchMode=yes", "-o", "RemoteCommand=none", "-T"});
    if (!target.connect_timeout) {
      argv.insert(argv.end() - 1, {"-o", "ConnectTimeout=" + std::to_string(seconds)});
    }
    argv.emplace_back("/bin/sh");
    hosts_[host.index] = {
        start_process_agent(io_.get_executor(), host, {argv, bootstrap(host, ticket)},
                            options_.start_timeout, run),
        nullptr};
  }

  asio::io_context& io_;
  SshOptions options_;
  base::Deadline deadline_ = base::Deadline::never();
  std::map<std::uint32_t, Host> hosts_;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Spawner> make_ssh_spawner(asio::io_context& io, SshOptions options) {
  return std::make_unique<SshSpawner>(io, std::move(options));
}

}  // namespace hv::launcher
