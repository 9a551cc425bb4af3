#include "launcher/slurm_facts.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "launcher/diagnose/child.h"
#include "launcher/hosts.h"
#include "launcher/slurm_state.h"
#include "rendezvous/base/env.h"

namespace hv::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kAnswerTime = 5s;

// Slurm's cgroups have the number of the job in their name.
bool in_job_cgroup(const std::string& job) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if ((line + "/").find("/job_" + job + "/") != line.npos) return true;
  }
  return false;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

SlurmAnswer ask_controller(SlurmJob& job) {
  auto reply =
      diagnose::ask({{{"scontrol", "-d", "show", "job", job.id}, {}}}, kAnswerTime).front();
  if (!reply.ok()) {
    bool unknown = reply.errors.find("Invalid job id") != reply.errors.npos;
    return unknown ? SlurmAnswer::kEnded : SlurmAnswer::kNone;
  }
  auto state = parse_slurm_job_state(reply.out);
  for (auto& node : job.nodes) {
    auto gpus = state.gpus.find(node.name);
    if (gpus != state.gpus.end()) node.gpus = gpus->second;
  }
  bool ours = state.user < 0 || ::getuid() == 0 || state.user == static_cast<long>(::getuid());
  return state.running && ours ? SlurmAnswer::kRunning : SlurmAnswer::kEnded;
}

}  // namespace

base::Result<LauncherDecision> choose_launcher(JobSpec& spec) {
  LauncherFacts facts;
  facts.asked = spec.launcher;
  facts.job = read_slurm_job(base::env);
  facts.host_name = host_name();
  facts.given = spec.hosts;
  auto machine = this_machine();
  facts.given_local = std::ranges::all_of(
      spec.hosts, [&](const HostSpec& host) { return is_local(host, machine); });
  bool wanted = !spec.launcher || spec.launcher == LauncherKind::kSlurm;
  if (wanted && facts.job && *facts.job) {
    auto& job = **facts.job;
    facts.srun_found = !diagnose::find_program("srun").empty();
    facts.in_job_cgroup = in_job_cgroup(job.id);
    facts.answer = ask_controller(job);
  }
  auto decision = decide_launcher(facts);
  if (!decision || decision->kind != LauncherKind::kSlurm) return decision;
  spec.slurm = **facts.job;
  if (spec.hosts.empty()) spec.hosts = slurm_hosts(*spec.slurm, spec.np);
  return decision;
}

base::Result<void> requeue(const SlurmJob& job) {
  const auto& id = job.array_task.empty() ? job.id : job.array_task;
  auto reply = diagnose::ask({{{"scontrol", "requeue", id}, {}}}, kAnswerTime).front();
  if (reply.ok()) return {};
  auto why = "scontrol requeue " + id + " " + how_it_ended(reply, kAnswerTime);
  if (!reply.errors.empty()) why += ": " + diagnose::last_line(reply.errors);
  return base::fail(base::Code::kUnavailable,
                    "the job is not back in the queue: " + why +
                        "\n  The batch script can do it when hvrun exits with its code for "
                        "preemption (--preempt-code), or Slurm itself: RequeueExit in slurm.conf");
}

}  // namespace hv::launcher
