#include "launcher/spawn_groups.h"

#include "launcher/command_spawner.h"
#include "launcher/local_spawner.h"

namespace hv::launcher {

namespace {

std::vector<std::string> ssh_command(const JobSpec& spec) {
  std::vector<std::string> command = {"ssh", "-oBatchMode=yes", "-oConnectTimeout=10"};
  if (!spec.ssh_identity_file.empty()) command.push_back("-i" + spec.ssh_identity_file);
  if (spec.ssh_port != 0) command.push_back("-p" + std::to_string(spec.ssh_port));
  for (const auto& option : spec.ssh_options) command.push_back("-o" + option);
  return command;
}

}  // namespace

base::Result<std::vector<SpawnGroup>> make_spawn_groups(boost::asio::io_context& io,
                                                        const JobSpec& spec, const Plan& plan) {
  std::vector<HostPlan> local, remote;
  for (const auto& host : plan.hosts) (host.local ? local : remote).push_back(host);

  std::vector<SpawnGroup> groups;
  if (!local.empty()) {
    auto path = find_agent_path();
    if (!path) return base::fail(path.error());
    groups.push_back({make_local_spawner(io, *path, spec.start_timeout), std::move(local)});
  }
  if (!remote.empty()) {
    auto program = find_agent_program();
    if (!program) return base::fail(program.error());
    CommandOptions options{ssh_command(spec), *program, spec.start_timeout, 32};
    groups.push_back({make_command_spawner(io, std::move(options)), std::move(remote)});
  }
  return groups;
}

}  // namespace hv::launcher
