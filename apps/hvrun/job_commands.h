// --detach, and what can be done with jobs from elsewhere: --list, --status, --attach, --stop.
#pragma once

#include <string>

#include "apps/hvrun/job_folder.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

// Goes on in a process of its own, away from the terminal, with output to the job's folder. True in
// that process; false in the first one, which has told the job's name and may end.
base::Result<bool> detach(const JobFolder& folder);

// Each ends with the exit code for hvrun: of the job where it is waited for.
base::Result<int> list_jobs();
base::Result<int> show_status(const std::string& name);
base::Result<int> attach(const std::string& name);  // its output from the beginning, to its end
base::Result<int> stop(const std::string& name);    // as TERM does; waits for the end

}  // namespace hv::apps
