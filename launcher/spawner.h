// Spawner, the seam that answers one question: how does the agent get onto these hosts?
// Kinds: local_spawner (fork and exec), ssh_spawner (libssh), command_spawner (any program).
//
// A spawner starts `hvagent` on each host, waits for its greeting, writes the ticket (ticket.h) and
// keeps the stream open: the agent may use it as its control link where TCP does not get through.
// run() ends when every agent has ended. It runs on the io_context; blocking work has threads of
// its own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/plan.h"
#include "launcher/ticket.h"
#include "rendezvous/base/result.h"
#include "rendezvous/server.h"

namespace hv::launcher {

struct SpawnEvents {
  // The agent process of this host runs (its stream is open). Called at most once per host.
  std::function<void(std::uint32_t host_index)> on_running;
  // The stream to this agent, offered once, before on_running: the receiver returns where bytes of
  // the agent's standard output go (Server::adopt), or null if it has no use for them.
  std::function<std::shared_ptr<rendezvous::Server::StreamInput>(
      std::uint32_t host_index, rendezvous::Server::ByteStream stream)>
      on_stream;
  // The agent has ended, or never started: the reason, with what to do. Exactly once per host.
  std::function<void(std::uint32_t host_index, base::Result<int> exit_code)> on_ended;
};

class Spawner {
 public:
  virtual ~Spawner() = default;
  virtual boost::asio::awaitable<void> run(std::vector<HostPlan> hosts, AgentTicket ticket,
                                           SpawnEvents events) = 0;
  // Ends the agents of all hosts hard (closes their streams, kills what is local). Idempotent.
  virtual void stop() = 0;
};

}  // namespace hv::launcher
