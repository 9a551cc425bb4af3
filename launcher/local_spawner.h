// LocalSpawner: the agent of this machine, a child process of hvrun.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>

#include "launcher/bootstrap.h"
#include "launcher/spawner.h"

namespace hv::launcher {

std::unique_ptr<Spawner> make_local_spawner(boost::asio::io_context& io, AgentProgram program,
                                            std::chrono::milliseconds start_timeout);

}  // namespace hv::launcher
