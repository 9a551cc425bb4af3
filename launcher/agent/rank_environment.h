// The environment of a rank, put together on its host: the host's own values of the names that
// belong to a machine, then what hvrun has sent, then what tells the rank its place. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher {

// "NAME=value" strings, each name once, sorted.
using EnvironmentBlock = std::vector<std::string>;

EnvironmentBlock host_environment(const rendezvous::LaunchOrder& order,
                                  const std::string& agent_socket, const char* const* own);
EnvironmentBlock rank_environment(const EnvironmentBlock& host, const rendezvous::RankOrder& rank);

}  // namespace hv::launcher
