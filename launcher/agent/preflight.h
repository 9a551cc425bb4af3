// Looks, before anything runs, whether this host can run the job: working directory, program and
// its interpreter; and holds a port for rank 0.
#pragma once

#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// The absolute path of `program`: with a '/' as it stands, otherwise from `path`, then from the
// working directory. sys tells what is wrong: ENOENT (program or interpreter), EACCES.
base::Result<std::string> find_program(const std::string& program,
                                       const std::string& working_directory,
                                       const std::string& path);

struct HeldPort {
  base::UniqueFd socket;  // bound with SO_REUSEADDR and not listening: another may still bind it
  std::uint16_t port = 0;
};
base::Result<HeldPort> hold_port(std::uint16_t low, std::uint16_t high);

struct PreflightResult {
  rendezvous::PreflightReply reply;
  HeldPort held;
};
PreflightResult run_preflight(const rendezvous::Preflight& request);

}  // namespace hv::launcher
