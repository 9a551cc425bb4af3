// What hvrun does instead of a job, --check-build and --probe, or before it, --preflight. Prints to
// standard output; yields hvrun's exit code.
#pragma once

#include "apps/hvrun/command_line.h"
#include "launcher/plan.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

int check_this_machine(bool json);

// line.act on the hosts of the plan.
base::Result<int> diagnose(const CommandLine& line, const launcher::Plan& plan);

// Prints to standard error, and only what is not as it should be. 0: the job may start.
base::Result<int> preflight(const CommandLine& line, const launcher::Plan& plan);

}  // namespace hv::apps
