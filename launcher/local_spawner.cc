#include "launcher/local_spawner.h"

#include "launcher/process_agent.h"

namespace hv::launcher {

std::unique_ptr<Spawner> make_local_spawner(boost::asio::io_context& io, std::string agent_path,
                                            std::chrono::milliseconds start_timeout) {
  auto plan = [path = std::move(agent_path)](const HostPlan&, AgentTicket ticket) {
    return ProcessPlan{{path}, Bootstrap::direct(std::move(ticket))};
  };
  return make_process_spawner(io, {plan, start_timeout, 1});
}

}  // namespace hv::launcher
