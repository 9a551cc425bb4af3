// The one step of srun that starts the agents of a job: its command line and its environment, and
// what each rank sees of Slurm in it. Values without I/O.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan.h"
#include "launcher/slurm_job.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// Which hosts one step takes, in the order of their node ids. With uneven cards, Slurm hands all of
// a node's to a step only if that is of this node alone.
struct SlurmStep {
  std::vector<HostPlan> hosts;
  int gpus = 0;            // of each of these nodes; 0: what the job has, or none
  bool of_a_node = false;  // the one node's cards
};
std::vector<SlurmStep> slurm_steps(const SlurmJob& job, const std::vector<HostPlan>& hosts);

// Whole nodes, whatever per-task settings the job has; beside other steps.
std::vector<std::string> step_command(const SlurmStep& step, const std::string& srun,
                                      const std::string& agent);

// Ours without what srun would read as settings of the step. "NAME=value".
std::vector<std::string> step_environment(const std::vector<rendezvous::KeyValue>& own);

// Variables of Slurm that belong to a host or a task, with '*': a rank does not get hvrun's.
const std::vector<std::string>& slurm_host_variables();

// What srun would have told this rank if it had started it.
std::vector<rendezvous::KeyValue> slurm_task_variables(const Plan& plan, const HostPlan& host,
                                                       const RankPlan& rank);

// The cards of a rank: its part of the visible ones of its host (CUDA_VISIBLE_DEVICES and the like)
// as --gpus-per-task, --ntasks-per-gpu and --gpu-bind would have given it, and HVRUN_DEVICE, an
// ordinal among these. `job` null: all that its host has.
std::vector<rendezvous::KeyValue> device_variables(const SlurmJob* job, int local_rank,
                                                   const std::vector<rendezvous::KeyValue>& masks);

}  // namespace hv::launcher
