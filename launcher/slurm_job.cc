#include "launcher/slurm_job.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "launcher/slurm_nodes.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

using base::Code;
using base::fail;
using base::Result;
using rendezvous::Getenv;

namespace {

// The batch script, salloc's interactive step and their kin have step ids from here on; only a
// smaller one means that srun has been asked for something of its own.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

using Names = std::vector<const char*>;

// The first of `names` that is set and not empty. Older Slurm, and some sites, know other names.
struct Variable {
  std::string name;
  std::string value;
};
std::optional<Variable> first_of(const Getenv& getenv, const Names& names) {
  for (const char* name : names) {
    auto value = getenv(name);
    if (value && !base::trim(*value).empty())
      return Variable{name, std::string(base::trim(*value))};
  }
  return std::nullopt;
}

Result<int> read_count(const Getenv& getenv, const Names& names, int fallback) {
  auto variable = first_of(getenv, names);
  if (!variable) return fallback;
  auto number = base::parse_int(variable->value);
  if (number && *number >= 0 && *number <= 1 << 24) return static_cast<int>(*number);
  return fail(Code::kUsage, variable->name + "=" + variable->value + " is not a number");
}

std::string nodes_of(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

// "2(x3),1" for exactly these nodes.
Result<std::vector<int>> counts_for(const Variable& variable, std::size_t nodes,
                                    const std::string& list) {
  auto counts = expand_counts(variable.value, variable.name);
  if (counts && counts->size() != nodes) {
    return fail(Code::kUsage, variable.name + "=" + variable.value + " is for " +
                                  nodes_of(counts->size()) + ", but " + list + " has " +
                                  nodes_of(nodes) + "; they do not belong to one job");
  }
  return counts;
}

struct StepNames {  // the variables of a step, or of the whole job
  Names nodes, tasks_per_node, tasks;
};
const StepNames kJobNames = {{"SLURM_JOB_NODELIST", "SLURM_NODELIST"},
                             {"SLURM_TASKS_PER_NODE"},
                             {"SLURM_NTASKS", "SLURM_NPROCS"}};
const StepNames kOfStep = {{"SLURM_STEP_NODELIST"},
                           {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"},
                           {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}};

// `total` tasks in blocks, the first nodes taking one more.
std::vector<int> spread(int total, std::size_t nodes) {
  auto count = static_cast<int>(nodes);
  std::vector<int> tasks(nodes, std::max(1, total / count));
  for (int i = 0; total > count && i < total % count; ++i) ++tasks[static_cast<std::size_t>(i)];
  return tasks;
}

Result<std::vector<int>> read_tasks(const Getenv& getenv, const StepNames& names, std::size_t nodes,
                                    const std::string& list) {
  if (auto variable = first_of(getenv, names.tasks_per_node)) {
    return counts_for(*variable, nodes, list);
  }
  auto per_node = read_count(getenv, {"SLURM_NTASKS_PER_NODE"}, 0);
  if (!per_node) return tl::unexpected(per_node.error());
  if (*per_node > 0) return std::vector<int>(nodes, *per_node);
  auto total = read_count(getenv, names.tasks, 0);
  if (!total) return tl::unexpected(total.error());
  return spread(*total, nodes);
}

// Cores are told for the nodes of the job; a step may have fewer of them.
Result<std::vector<SlurmNode>> with_cpus(const Getenv& getenv, std::vector<SlurmNode> nodes) {
  auto list = first_of(getenv, kJobNames.nodes);
  auto cpus = first_of(getenv, {"SLURM_JOB_CPUS_PER_NODE"});
  if (!list || !cpus) return nodes;
  auto names = expand_node_list(list->value, list->name);
  if (!names) return tl::unexpected(names.error());
  auto counts = counts_for(*cpus, names->size(), list->name);
  if (!counts) return tl::unexpected(counts.error());
  for (auto& node : nodes) {
    auto at = std::ranges::find(*names, node.name) - names->begin();
    if (at < std::ssize(*names)) node.cpus = (*counts)[static_cast<std::size_t>(at)];
  }
  return nodes;
}

Result<std::vector<SlurmNode>> read_nodes(const Getenv& getenv, const StepNames& names,
                                          const std::string& job) {
  auto list = first_of(getenv, names.nodes);
  if (!list) {
    return fail(Code::kUsage, "SLURM_JOB_ID=" + job + " is set, but " + *names.nodes.begin() +
                                  " is not: these variables do not come from Slurm as a whole");
  }
  auto expanded = expand_node_list(list->value, list->name);
  if (!expanded) return tl::unexpected(expanded.error());
  if (expanded->empty()) return fail(Code::kUsage, list->name + " names no node");
  auto tasks = read_tasks(getenv, names, expanded->size(), list->name);
  if (!tasks) return tl::unexpected(tasks.error());
  std::vector<SlurmNode> nodes;
  for (std::size_t i = 0; i < expanded->size(); ++i) {
    nodes.push_back({(*expanded)[i], (*tasks)[i], 0});
  }
  return with_cpus(getenv, std::move(nodes));
}

// "2", "a100:2", "gpu:a100:2"
std::size_t last_number(std::string_view text) {
  auto colon = text.rfind(':');
  auto number = base::parse_int(colon == text.npos ? text : text.substr(colon + 1));
  return number && *number > 0 && *number < 1 << 16 ? static_cast<std::size_t>(*number) : 0;
}

// "3", "0x3"; "0x3*2": twice.
std::vector<std::uint64_t> read_bind_list(std::string_view text) {
  std::vector<std::uint64_t> list;
  for (auto word : base::split(text, ',')) {
    std::string number(word.substr(0, word.find('*')));
    char* end = nullptr;
    auto value = std::strtoull(number.c_str(), &end, 0);
    if (number.empty() || *end != '\0') return {};
    auto times = word.find('*') == word.npos ? 1 : base::parse_int(word.substr(word.find('*') + 1));
    list.insert(list.end(),
                static_cast<std::size_t>(std::clamp<std::int64_t>(times.value_or(1), 1, 64)),
                value);
  }
  return list;
}

// What is not understood ("closest" needs the topology of the node) leaves a task all its cards.
SlurmGpus read_gpus(const Getenv& getenv) {
  using Bind = SlurmGpus::Bind;
  auto text = [&](const Names& names) {
    auto variable = first_of(getenv, names);
    return variable ? variable->value : std::string();
  };
  SlurmGpus gpus;
  if (auto number = last_number(text({"SLURM_GPUS_PER_TASK"}))) gpus = {Bind::kPerTask, number, {}};
  if (auto tasks = last_number(text({"SLURM_NTASKS_PER_GPU"}))) gpus = {Bind::kSingle, tasks, {}};
  std::string bind = text({"SLURM_GPU_BIND", "SLURM_TRES_BIND"});
  for (std::string_view prefix : {"gres/gpu:", "gres:gpu:", "verbose,", "v,"}) {
    if (bind.starts_with(prefix)) bind.erase(0, prefix.size());
  }
  auto colon = std::min(bind.find(':'), bind.size());
  auto kind = bind.substr(0, colon);
  auto value = bind.substr(std::min(colon + 1, bind.size()));
  auto number = std::max<std::size_t>(last_number(value), 1);
  if (kind == "none" || kind == "closest") return {};
  if (kind == "per_task") return {Bind::kPerTask, number, {}};
  if (kind == "single") return {Bind::kSingle, number, {}};
  if (kind == "map_gpu" || kind == "mask_gpu") {
    auto list = read_bind_list(value);
    if (!list.empty()) return {kind == "map_gpu" ? Bind::kMap : Bind::kMask, 1, std::move(list)};
  }
  return gpus;
}

bool is_ordinary_step(const Getenv& getenv) {
  auto step = first_of(getenv, {"SLURM_STEP_ID", "SLURM_STEPID"});
  auto number = step ? base::parse_int(step->value) : std::nullopt;
  return number && *number < kFirstSpecialStep && first_of(getenv, kOfStep.nodes);
}

std::string short_name(std::string_view host) {
  return std::string(host.substr(0, host.find('.')));
}

}  // namespace

std::string describe(const SlurmJob& job) {
  std::string text = "job " + (job.array_task.empty() ? job.id : job.array_task);
  if (!job.step.empty()) text += " step " + job.step;
  return text;
}

Result<std::optional<SlurmJob>> read_slurm_job(const Getenv& getenv) {
  auto id = first_of(getenv, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!id) return std::optional<SlurmJob>();
  SlurmJob job;
  job.id = id->value;
  auto array = first_of(getenv, {"SLURM_ARRAY_JOB_ID"});
  auto element = first_of(getenv, {"SLURM_ARRAY_TASK_ID"});
  if (array && element) job.array_task = array->value + "_" + element->value;
  bool in_step = is_ordinary_step(getenv);
  if (in_step) job.step = first_of(getenv, {"SLURM_STEP_ID", "SLURM_STEPID"})->value;

  const auto& names = in_step ? kOfStep : kJobNames;
  auto nodes = read_nodes(getenv, names, job.id);
  if (!nodes) return tl::unexpected(nodes.error());
  job.nodes = std::move(*nodes);
  int planned = std::accumulate(job.nodes.begin(), job.nodes.end(), 0,
                                [](int sum, const SlurmNode& node) { return sum + node.tasks; });
  auto total = read_count(getenv, names.tasks, planned);
  auto cpus = read_count(getenv, {"SLURM_CPUS_PER_TASK"}, 1);
  auto task = read_count(getenv, {"SLURM_PROCID"}, 0);
  for (const auto* number : {&total, &cpus, &task}) {
    if (!*number) return tl::unexpected(number->error());
  }
  job.tasks = *total > 0 ? std::min(*total, planned) : planned;
  job.cpus_per_task = std::max(*cpus, 1);
  job.cpus_asked = first_of(getenv, {"SLURM_CPUS_PER_TASK"}).has_value();
  job.gpus = read_gpus(getenv);
  job.task = in_step ? *task : 0;
  job.terminal = first_of(getenv, {"SLURM_PTY_PORT"}).has_value();
  if (auto node = first_of(getenv, {"SLURMD_NODENAME"})) job.this_node = node->value;
  return std::optional<SlurmJob>(std::move(job));
}

std::vector<SlurmNode>::const_iterator find_node(const SlurmJob& job, std::string_view host) {
  auto exact = std::ranges::find(job.nodes, host, &SlurmNode::name);
  if (exact != job.nodes.end()) return exact;
  return std::ranges::find_if(
      job.nodes, [&](const SlurmNode& node) { return short_name(node.name) == short_name(host); });
}

std::vector<HostSpec> slurm_hosts(const SlurmJob& job, int np) {
  std::vector<HostSpec> hosts;
  int slots = 0;
  for (const auto& node : job.nodes) {
    hosts.push_back({node.name, {}, 0, node.tasks, "Slurm " + describe(job)});
    slots += node.tasks;
  }
  // One more for each node in turn, while its cores last.
  for (bool grown = true; slots < np && grown;) {
    grown = false;
    for (std::size_t i = 0; i < hosts.size() && slots < np; ++i) {
      if ((hosts[i].slots + 1) * job.cpus_per_task > job.nodes[i].cpus) continue;
      ++hosts[i].slots;
      ++slots;
      grown = true;
    }
  }
  return hosts;
}

std::string_view to_string(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kLocal:
      return "local";
    case LauncherKind::kSsh:
      return "ssh";
    case LauncherKind::kSlurm:
      return "slurm";
  }
  return "unknown";
}

Result<std::optional<LauncherKind>> parse_launcher(std::string_view word) {
  if (word == "auto") return std::optional<LauncherKind>();
  for (auto kind : {LauncherKind::kLocal, LauncherKind::kSsh, LauncherKind::kSlurm}) {
    if (word == to_string(kind)) return std::optional(kind);
  }
  return fail(Code::kUsage, "--launcher " + base::quoted(word) +
                                " is not known; there are auto, local, ssh and slurm");
}

namespace {

bool runs_here(const LauncherFacts& facts, const SlurmJob& job) {
  return !job.this_node.empty() && short_name(job.this_node) == short_name(facts.host_name);
}

// Why the job of the variables cannot be used; empty: it can. Where nobody answers, variables are
// believed unless something speaks against them: srun will say so soon enough, whereas ranks on a
// login node by mistake are noticed late.
std::string why_not_alive(const LauncherFacts& facts, const SlurmJob& job) {
  std::string set = "SLURM_JOB_ID=" + job.id + " is set, but ";
  if (facts.in_job_cgroup || facts.answer == SlurmAnswer::kRunning) return {};
  if (facts.answer == SlurmAnswer::kEnded) return set + "Slurm knows no such running job of yours";
  if (!job.this_node.empty() && !runs_here(facts, job)) {
    return set + "this machine is not the node " + job.this_node + " that it speaks of";
  }
  if (job.this_node.empty() && !facts.srun_found) return set + "srun is not in PATH";
  return {};
}

bool contains(const SlurmJob& job, const std::vector<HostSpec>& hosts) {
  return std::ranges::all_of(
      hosts, [&](const HostSpec& host) { return find_node(job, host.name) != job.nodes.end(); });
}

LauncherDecision without_slurm(const LauncherFacts& facts, const std::string& why) {
  if (facts.given.empty()) return {LauncherKind::kLocal, why + "; no hosts were given", false};
  if (facts.given_local) return {LauncherKind::kLocal, why + "; all hosts are this one", false};
  return {LauncherKind::kSsh, why + "; hosts were given", false};
}

Result<LauncherDecision> asked_for_slurm(const LauncherFacts& facts, const SlurmJob* job) {
  if (!facts.job) return tl::unexpected(facts.job.error());
  if (job == nullptr) {
    return fail(Code::kUsage,
                "--launcher slurm: there is no Slurm job here (SLURM_JOB_ID is not set)\n  Start "
                "hvrun inside one: salloc -N 2 hvrun …, or sbatch with a hvrun line");
  }
  if (!facts.srun_found) {
    return fail(Code::kUsage,
                "--launcher slurm: srun is not in PATH\n  Add Slurm's folder to "
                "PATH, or use --launcher ssh with -H");
  }
  if (!contains(*job, facts.given)) {
    return fail(Code::kUsage, "--launcher slurm: the hosts given are not all nodes of Slurm " +
                                  describe(*job) +
                                  "\n  Leave -H out, or use --launcher ssh for other hosts");
  }
  return LauncherDecision{LauncherKind::kSlurm, "asked for by --launcher slurm", false};
}

base::Error started_many_times(const SlurmJob& job) {
  return {Code::kUsage,
          "srun has started hvrun " + std::to_string(job.tasks) + " times; this is copy " +
              std::to_string(job.task) +
              "\n  hvrun starts the ranks by itself. Take the srun in front of it away, or let "
              "srun start the program without hvrun.",
          {},
          0};
}

}  // namespace

Result<LauncherDecision> decide_launcher(const LauncherFacts& facts) {
  const SlurmJob* job = facts.job && *facts.job ? &**facts.job : nullptr;
  if (facts.asked == LauncherKind::kSlurm) return asked_for_slurm(facts, job);
  if (facts.asked) {
    return LauncherDecision{
        *facts.asked, "asked for by --launcher " + std::string(to_string(*facts.asked)), false};
  }
  if (!facts.job) {
    if (!facts.given.empty()) return without_slurm(facts, "Slurm's variables are broken");
    return fail(Code::kUsage, facts.job.error().text +
                                  "\n  To start without Slurm, say how: --launcher local, or -H");
  }
  if (job == nullptr) return without_slurm(facts, "no Slurm job");
  if (auto why = why_not_alive(facts, *job); !why.empty()) {
    auto decision = without_slurm(facts, why);
    decision.surprising = true;
    return decision;
  }
  if (job->task > 0 && !job->terminal) return tl::unexpected(started_many_times(*job));
  if (!facts.given.empty() && !contains(*job, facts.given)) {
    return without_slurm(facts, "the hosts given are not all nodes of Slurm " + describe(*job));
  }
  if (facts.srun_found) {
    return LauncherDecision{LauncherKind::kSlurm,
                            "Slurm " + describe(*job) + " on " + nodes_of(job->nodes.size()),
                            false};
  }
  if (job->nodes.size() == 1 && runs_here(facts, *job)) {
    return LauncherDecision{LauncherKind::kLocal,
                            "srun is not in PATH; this is the only node of Slurm " + describe(*job),
                            true};
  }
  return fail(Code::kUsage, "inside Slurm " + describe(*job) +
                                ", but srun is not in PATH\n  Add Slurm's folder to PATH, or say "
                                "how to start: --launcher ssh or --launcher local");
}

}  // namespace hv::launcher
