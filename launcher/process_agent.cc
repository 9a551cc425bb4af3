#include "launcher/process_agent.h"

#include <boost/asio/post.hpp>

#include "launcher/child_process.h"

namespace hv::launcher {

namespace asio = boost::asio;

std::shared_ptr<AgentStream> start_process_agent(asio::any_io_executor executor,
                                                 const HostPlan& host, ProcessPlan plan,
                                                 std::chrono::milliseconds start_timeout,
                                                 SpawnRun& run) {
  auto stream = std::make_shared<AgentStream>(executor, host, plan.argv.front(),
                                              std::move(plan.bootstrap), run);
  auto on_end = [stream, look = std::move(plan.on_end)](base::Result<int> how) {
    if (!look || !look(*stream, how)) stream->on_end(std::move(how));
  };
  auto child = ChildProcess::start(
      executor, plan.argv,
      {.on_output = [stream](base::ByteSpan bytes) { stream->on_output(bytes); },
       .on_diagnostics = [stream](base::ByteSpan bytes) { stream->on_diagnostics(bytes); },
       .on_end = on_end});
  if (child) {
    stream->on_open(*child, start_timeout);
  } else {
    asio::post(executor, [on_end, error = child.error()] { on_end(base::fail(error)); });
  }
  return stream;
}

namespace {

class ProcessSpawner : public Spawner {
 public:
  ProcessSpawner(asio::io_context& io, ProcessSpawnerOptions options)
      : io_(io), options_(std::move(options)) {}

  asio::awaitable<void> run(std::vector<HostPlan> hosts, AgentTicket ticket,
                            SpawnEvents events) override {
    SpawnRun run(io_.get_executor(), hosts, std::move(events), options_.at_a_time);
    for (const auto& host : hosts) {
      co_await run.may_start(host.index);
      if (stopped_) {
        run.ended(host.index, base::fail(base::Code::kAborted, "stopped by hvrun"));
        continue;
      }
      agents_.push_back(start_process_agent(io_.get_executor(), host,
                                            options_.plan(host, ticket_for(ticket, host)),
                                            options_.start_timeout, run));
    }
    co_await run.all_ended();
    agents_.clear();
  }

  void stop() override {
    stopped_ = true;
    for (auto& agent : agents_) agent->stop();
  }

 private:
  asio::io_context& io_;
  ProcessSpawnerOptions options_;
  std::vector<std::shared_ptr<AgentStream>> agents_;
  bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Spawner> make_process_spawner(asio::io_context& io, ProcessSpawnerOptions options) {
  return std::make_unique<ProcessSpawner>(io, std::move(options));
}

AgentTicket ticket_for(AgentTicket ticket, const HostPlan& host) {
  ticket.host_index = host.index;
  return ticket;
}

std::string make_nonce() { return rendezvous::Secret::random().hex().substr(0, 16); }

}  // namespace hv::launcher
