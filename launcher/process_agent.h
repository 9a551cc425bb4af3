// An agent at the other end of a child process's standard input and output. What local_spawner,
// command_spawner and ssh_spawner's use of the OpenSSH client have in common.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent_stream.h"

namespace hv::launcher {

struct ProcessPlan {
  std::vector<std::string> argv;
  Bootstrap bootstrap;
  // May look at the end before it is told, and take it over (true): then it is not told.
  std::function<bool(const AgentStream&, base::Result<int>&)> on_end = {};
};

// Starts the process; everything that follows, also that it cannot be started, is told to `run`.
std::shared_ptr<AgentStream> start_process_agent(boost::asio::any_io_executor executor,
                                                 const HostPlan& host, ProcessPlan plan,
                                                 std::chrono::milliseconds start_timeout,
                                                 SpawnRun& run);

// A spawner that starts one such process for each host.
struct ProcessSpawnerOptions {
  std::function<ProcessPlan(const HostPlan&, AgentTicket)> plan;  // the ticket is the host's own
  std::chrono::milliseconds start_timeout{30000};
  int at_a_time = 32;
};
std::unique_ptr<Spawner> make_process_spawner(boost::asio::io_context& io,
                                              ProcessSpawnerOptions options);

AgentTicket ticket_for(AgentTicket ticket, const HostPlan& host);
std::string make_nonce();

}  // namespace hv::launcher
