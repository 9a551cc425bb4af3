// Whether --port-range has room for everything that listens. Pure.
#pragma once

#include "launcher/job_spec.h"
#include "launcher/plan.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// kUsage naming the host that needs most, and how many ports that is.
base::Result<void> check_port_range(const JobSpec& spec, const Plan& plan);

}  // namespace hv::launcher
