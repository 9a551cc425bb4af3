#include "launcher/slurm_step.h"

#include <algorithm>
#include <array>

#include "rendezvous/base/text.h"

namespace hv::launcher {

using rendezvous::KeyValue;

namespace {

// All that a step may know of Slurm beforehand. Everything else of SLURM_*, SRUN_*, SBATCH_* and
// SALLOC_* is, or may become, a setting of the step: tasks, cores, cards, bindings, distribution.
constexpr std::array<std::string_view, 11> kKept = {
    "SLURM_JOB_ID",       "SLURM_JOBID",           "SLURM_CONF",         "SLURM_JWT",
    "SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_SUBMIT_DIR",   "SLURM_SUBMIT_HOST",     "SLURM_DEBUG",
};

bool is_setting(std::string_view name) {
  bool of_slurm = name.starts_with("SLURM_") || name.starts_with("SRUN_") ||
                  name.starts_with("SBATCH_") || name.starts_with("SALLOC_") ||
                  name.starts_with("PMI_") || name.starts_with("PMIX_") ||
                  name == "SLURMD_NODENAME";
  return of_slurm && std::ranges::find(kKept, name) == kKept.end() &&
         !name.starts_with("SLURM_SPANK_");
}

std::size_t place(const SlurmJob& job, const HostPlan& host) {
  return static_cast<std::size_t>(find_node(job, host.host.name) - job.nodes.begin());
}

std::string names(const SlurmStep& step) {
  std::vector<std::string> list;
  for (const auto& host : step.hosts) list.push_back(host.host.name);
  return base::join(list, ",");
}

// "2(x3),1"
std::string compress(const std::vector<int>& counts) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t end = i;
    while (end < counts.size() && counts[end] == counts[i]) ++end;
    std::string word = std::to_string(counts[i]);
    if (end - i > 1) word += "(x" + std::to_string(end - i) + ")";
    words.push_back(std::move(word));
    i = end;
  }
  return base::join(words, ",");
}

std::vector<std::string> list_of(std::string_view mask) {
  std::vector<std::string> devices;
  for (auto word : base::split(mask, ',')) {
    if (!base::trim(word).empty()) devices.emplace_back(base::trim(word));
  }
  return devices;
}

// Which of `count` cards, by their place, the task gets; empty: all of them.
std::vector<std::size_t> part_of(const SlurmGpus& gpus, std::size_t task, std::size_t count) {
  std::vector<std::size_t> part;
  switch (gpus.bind) {
    case SlurmGpus::Bind::kNone:
      break;
    case SlurmGpus::Bind::kPerTask:
      for (auto i = task * gpus.number; i < (task + 1) * gpus.number; ++i)
        part.push_back(i % count);
      break;
    case SlurmGpus::Bind::kSingle:
      part.push_back(task / gpus.number % count);
      break;
    case SlurmGpus::Bind::kMap:
      part.push_back(gpus.list[task % gpus.list.size()] % count);
      break;
    case SlurmGpus::Bind::kMask: {
      auto bits = gpus.list[task % gpus.list.size()];
      for (std::size_t i = 0; i < count && i < 64; ++i) {
        if ((bits >> i & 1) != 0) part.push_back(i);
      }
      break;
    }
  }
  return part;
}

}  // namespace

std::vector<SlurmStep> slurm_steps(const SlurmJob& job, const std::vector<HostPlan>& hosts) {
  auto ordered = hosts;
  std::ranges::stable_sort(ordered, {}, [&](const HostPlan& host) { return place(job, host); });
  auto cards = [&](const HostPlan& host) {
    auto node = find_node(job, host.host.name);
    return node == job.nodes.end() ? 0 : node->gpus;
  };
  bool even = std::ranges::all_of(
      job.nodes, [&](const SlurmNode& node) { return node.gpus == job.nodes.front().gpus; });
  if (even) return {{ordered, ordered.empty() ? 0 : cards(ordered.front()), false}};
  std::vector<SlurmStep> steps;
  for (const auto& host : ordered) steps.push_back({{host}, cards(host), true});
  return steps;
}

std::vector<std::string> step_command(const SlurmStep& step, const std::string& srun,
                                      const std::string& agent) {
  auto nodes = std::to_string(step.hosts.size());
  std::vector<std::string> command = {srun,
                                      "--overlap",
                                      "--nodes=" + nodes,
                                      "--ntasks=" + nodes,
                                      "--ntasks-per-node=1",
                                      "--nodelist=" + names(step),
                                      "--distribution=block",
                                      "--cpu-bind=none",
                                      "--mem=0",
                                      "--mpi=none",
                                      "--kill-on-bad-exit=0",
                                      "--wait=0",
                                      "--label",
                                      "--chdir=/"};
  if (step.gpus > 0) {
    command.push_back((step.of_a_node ? "--gpus=" : "--gres=gpu:") + std::to_string(step.gpus));
  }
  command.push_back(agent);
  command.emplace_back("--step");
  return command;
}

std::vector<std::string> step_environment(const std::vector<KeyValue>& own) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : own) {
    if (!is_setting(name)) environment.push_back(name + "=" + value);
  }
  return environment;
}

const std::vector<std::string>& slurm_host_variables() {
  static const std::vector<std::string> names = {
      "SLURMD_*",       "SLURM_STEP*",        "SLURM_NODEID",     "SLURM_PROCID",
      "SLURM_LOCALID",  "SLURM_GTIDS",        "SLURM_TASK_PID",   "SLURM_CPUS_ON_NODE",
      "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_TOPOLOGY_*", "SLURM_LAUNCH_*",
      "SLURM_SRUN_*",   "SLURM_CPU_BIND*",    "SLURM_MEM_BIND*",  "SLURM_DISTRIBUTION",
      "SLURM_PTY_*",    "SLURM_PRIO_PROCESS"};
  return names;
}

std::vector<KeyValue> slurm_task_variables(const Plan& plan, const HostPlan& host,
                                           const RankPlan& rank) {
  std::vector<int> tasks;
  for (const auto& one : plan.hosts) tasks.push_back(static_cast<int>(one.ranks.size()));
  auto size = std::to_string(plan.size);
  auto nodes = std::to_string(plan.hosts.size());
  return {{"SLURM_PROCID", std::to_string(rank.rank)},
          {"SLURM_LOCALID", std::to_string(rank.local_rank)},
          {"SLURM_NODEID", std::to_string(host.index)},
          {"SLURM_NTASKS", size},
          {"SLURM_NPROCS", size},
          {"SLURM_STEP_NUM_TASKS", size},
          {"SLURM_STEP_NUM_NODES", nodes},
          {"SLURM_TASKS_PER_NODE", compress(tasks)},
          {"SLURM_STEP_TASKS_PER_NODE", compress(tasks)}};
}

std::vector<KeyValue> device_variables(const SlurmJob* job, int local_rank,
                                       const std::vector<KeyValue>& masks) {
  auto task = static_cast<std::size_t>(local_rank);
  std::vector<KeyValue> variables;
  std::size_t ordinal = task;
  for (const auto& [name, mask] : masks) {
    auto devices = list_of(mask);
    if (devices.empty()) continue;
    auto part =
        job != nullptr ? part_of(job->gpus, task, devices.size()) : std::vector<std::size_t>{};
    ordinal = part.empty() ? task % devices.size() : 0;
    if (part.empty()) continue;
    std::vector<std::string> mine;
    for (auto i : part) mine.push_back(devices[i]);
    variables.push_back({name, base::join(mine, ",")});
  }
  variables.push_back({"HVRUN_DEVICE", std::to_string(ordinal)});
  return variables;
}

}  // namespace hv::launcher
