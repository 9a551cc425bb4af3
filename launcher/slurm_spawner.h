// SlurmSpawner: the agents of the nodes of a job, in one step of srun. All of them share srun's
// standard streams: one ticket goes to all, and what they say comes in lines with the node in
// front. So an agent's control link is always TCP; no stream is offered.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "launcher/slurm_step.h"
#include "launcher/spawner.h"

namespace hv::launcher {

struct SlurmStepOptions {
  SlurmStep step;  // run() is given the same hosts
  std::string srun = "srun";
  std::string agent_path;                // the same on every node
  std::vector<std::string> environment;  // of srun
  std::chrono::milliseconds start_timeout{30000};
};

std::unique_ptr<Spawner> make_slurm_spawner(boost::asio::io_context& io, SlurmStepOptions options);

}  // namespace hv::launcher
