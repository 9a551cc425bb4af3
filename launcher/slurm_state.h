// What the controller says of a job: `scontrol -d show job`. Pure; slurm_facts.h asks it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace hv::launcher {

struct SlurmJobState {
  bool running = false;
  long user = -1;                   // uid of its owner; -1: not said
  std::map<std::string, int> gpus;  // cards of the job by node; nodes without are not there
};

SlurmJobState parse_slurm_job_state(std::string_view text);

}  // namespace hv::launcher
