#include "launcher/spawn_groups.h"

#include "launcher/command_spawner.h"
#include "launcher/local_spawner.h"
#include "launcher/slurm_spawner.h"
#include "launcher/ssh_spawner.h"

extern char** environ;

namespace hv::launcher {

namespace {

// Less than the whole time to start: so a spawner's reason comes before the job's time is up.
base::Millis spawn_time(const JobSpec& spec) { return spec.start_timeout * 9 / 10; }

SshOptions make_ssh_options(const JobSpec& spec, AgentProgram program) {
  SshOptions options;
  options.flags = {spec.ssh_identity_file, spec.ssh_port, spec.ssh_options};
  options.program = std::move(program);
  options.start_timeout = spawn_time(spec);
  return options;
}

base::Result<std::vector<SpawnGroup>> make_slurm_groups(boost::asio::io_context& io,
                                                        const JobSpec& spec, const Plan& plan) {
  auto path = find_agent_path();
  if (!path) return base::fail(path.error());
  auto environment = step_environment(read_environment(environ));
  std::vector<SpawnGroup> groups;
  for (auto& step : slurm_steps(*spec.slurm, plan.hosts)) {
    groups.push_back({make_slurm_spawner(io, {step, "srun", *path, environment, spawn_time(spec)}),
                      step.hosts, false});
  }
  return groups;
}

}  // namespace

base::Result<std::vector<SpawnGroup>> make_spawn_groups(boost::asio::io_context& io,
                                                        const JobSpec& spec, const Plan& plan) {
  if (spec.slurm) return make_slurm_groups(io, spec, plan);
  std::vector<HostPlan> local, remote;
  for (const auto& host : plan.hosts) (host.local ? local : remote).push_back(host);

  std::vector<SpawnGroup> groups;
  if (!local.empty()) {
    auto path = find_agent_path();
    if (!path) return base::fail(path.error());
    groups.push_back({make_local_spawner(io, *path, spawn_time(spec)), std::move(local), true});
  }
  if (!remote.empty()) {
    auto program = find_agent_program();
    if (!program) return base::fail(program.error());
    groups.push_back(
        {spec.launch_agent.empty()
             ? make_ssh_spawner(io, make_ssh_options(spec, *program))
             : make_command_spawner(io, {spec.launch_agent, *program, spawn_time(spec), 32}),
         std::move(remote), true});
  }
  return groups;
}

}  // namespace hv::launcher
