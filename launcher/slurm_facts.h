// Asks this machine and the controller what decide_launcher needs, decides, and fills in the hosts
// of a Slurm job; puts a job back into the queue. Blocks for the time that scontrol takes; call it
// before any thread is started.
#pragma once

#include "launcher/job_spec.h"
#include "launcher/slurm_job.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// With kSlurm, spec.slurm is the job and spec.hosts are its nodes.
base::Result<LauncherDecision> choose_launcher(JobSpec& spec);

// Back into the queue: the job, or its element of an array, not the whole array.
base::Result<void> requeue(const SlurmJob& job);

}  // namespace hv::launcher
