// The plan as JSON, as --dry-run prints it: hosts, ranks, and the variables that the ranks will
// get, with values that look like secrets masked.
#pragma once

#include <string>

#include "launcher/environment.h"
#include "launcher/job_spec.h"
#include "launcher/plan.h"

namespace hv::launcher {

std::string plan_json(const JobSpec& spec, const Plan& plan, const RankEnvironment& environment);

}  // namespace hv::launcher
