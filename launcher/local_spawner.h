// LocalSpawner: the agent of this machine, a child process of hvrun.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "launcher/spawner.h"

namespace hv::launcher {

std::unique_ptr<Spawner> make_local_spawner(boost::asio::io_context& io, std::string agent_path,
                                            std::chrono::milliseconds start_timeout);

}  // namespace hv::launcher
