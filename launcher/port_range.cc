#include "launcher/port_range.h"

#include <algorithm>

#include "launcher/relays.h"

namespace hv::launcher {

base::Result<void> check_port_range(const JobSpec& spec, const Plan& plan) {
  if (spec.port_low == 0) return {};
  int most = 1;  // the server, on a machine of its own
  std::string name = "hvrun";
  const auto relays = make_relay_tree(plan.hosts.size(), spec.fanout);
  for (const auto& host : plan.hosts) {
    int needs = plan.hosts.size() > 1 ? static_cast<int>(host.ranks.size()) : 0;
    if (host.local) ++needs;       // the server
    if (host.index == 0) ++needs;  // MASTER_PORT
    if (std::ranges::find(relays, host.index) != relays.end()) ++needs;
    if (needs > most) {
      most = needs;
      name = host.host.name;
    }
  }
  int ports = spec.port_high - spec.port_low + 1;
  if (ports >= most) return {};
  return base::fail(
      base::Code::kUsage,
      "--port-range " + std::to_string(spec.port_low) + "-" + std::to_string(spec.port_high) +
          " has " + std::to_string(ports) + (ports == 1 ? " port" : " ports") + ", but " + name +
          " needs " + std::to_string(most) +
          " (one for each rank, one for MASTER_PORT on the first host, one for hvrun, one for "
          "relayed links above --fanout hosts)\n  Give at "
          "least: --port-range " +
          std::to_string(spec.port_low) + "-" + std::to_string(spec.port_low + most - 1));
}

}  // namespace hv::launcher
