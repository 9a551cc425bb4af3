// CommandSpawner: reaches hosts through any program that runs `PROGRAM … host command…` there and
// passes the three standard streams through: the OpenSSH client, kubectl exec, docker exec, nsenter
// in a script. The command is one word, /bin/sh; the rest goes through its standard input.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/bootstrap.h"
#include "launcher/spawner.h"

namespace hv::launcher {

struct CommandOptions {
  std::vector<std::string> command;  // {"kubectl-exec.sh"}; the host's name is appended
  AgentProgram program;
  std::chrono::milliseconds start_timeout{30000};
  int at_a_time = 32;
};

std::unique_ptr<Spawner> make_command_spawner(boost::asio::io_context& io,
                                              const CommandOptions& options);

}  // namespace hv::launcher
