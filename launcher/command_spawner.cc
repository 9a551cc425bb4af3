#include "launcher/command_spawner.h"

#include "launcher/process_agent.h"

namespace hv::launcher {

std::unique_ptr<Spawner> make_command_spawner(boost::asio::io_context& io,
                                              const CommandOptions& options) {
  auto plan = [command = options.command, program = options.program](const HostPlan& host,
                                                                     AgentTicket ticket) {
    auto argv = command;
    argv.push_back(host.host.name);
    argv.emplace_back("/bin/sh");
    return ProcessPlan{argv, Bootstrap::over_shell(std::move(ticket), program, make_nonce())};
  };
  return make_process_spawner(io, {plan, options.start_timeout, options.at_a_time});
}

}  // namespace hv::launcher
