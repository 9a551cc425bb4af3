#include "launcher/launch_order.h"

#include <sys/socket.h>

#include <algorithm>

#include "rendezvous/base/fd.h"
#include "rendezvous/contract.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {

namespace {

using rendezvous::Endpoint;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// The address that this machine's packets to `remote` carry; nothing is sent.
std::string source_address_to(const std::string& remote) {
  auto address = rendezvous::to_socket_address({remote, 9});
  if (!address) return {};
  base::UniqueFd socket(::socket(address->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), address->get(), address->length) != 0) return {};
  return rendezvous::local_endpoint(socket.get()).address;
}

// Addresses by which other hosts reach this one, best first: the one that has reached the server,
// or for this machine the one that leads to the others; then what its interfaces have.
std::vector<std::string> addresses_of(std::size_t index, const JobSpec& spec, const Plan& plan,
                                      const std::vector<HostFacts>& facts) {
  std::vector<std::string> addresses;
  auto add = [&](const std::string& address) {
    if (!address.empty() && std::ranges::find(addresses, address) == addresses.end()) {
      addresses.push_back(address);
    }
  };
  const auto& hello = facts[index].hello;
  if (plan.hosts[index].local) {
    add(spec.advertise_address);
    for (const auto& other : facts) {
      const auto& remote = other.hello.reached_from;
      if (!remote.empty() && !is_loopback(remote)) add(source_address_to(remote));
    }
  } else if (!is_loopback(hello.reached_from)) {
    add(hello.reached_from);
  }
  for (const auto& address : rendezvous::usable_addresses(hello.interfaces)) add(address);
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");  // several "hosts" on one machine
  return addresses;
}

}  // namespace

rendezvous::Preflight make_preflight(const JobSpec& spec, const RankEnvironment& environment,
                                     bool hold_master_port) {
  rendezvous::Preflight request;
  request.program = spec.program;
  request.working_directory = spec.working_directory;
  auto path = std::ranges::find(environment.sent, "PATH", &rendezvous::KeyValue::key);
  if (path != environment.sent.end()) request.path = path->value;
  request.hold_master_port = hold_master_port;
  request.port_low = spec.port_low;
  request.port_high = spec.port_high;
  return request;
}

std::vector<rendezvous::LaunchOrder> make_launch_orders(const JobSpec& spec, const Plan& plan,
                                                        const RankEnvironment& environment,
                                                        const std::vector<HostFacts>& facts,
                                                        const std::string& job,
                                                        const rendezvous::Secret& rank_secret) {
  bool several = plan.hosts.size() > 1;
  RankPlace place{job, rendezvous::build_id(), rank_secret, {}, "127.0.0.1", 0};
  if (several) place.master_address = addresses_of(0, spec, plan, facts).front();
  place.master_port = facts.front().preflight.master_port;

  std::vector<rendezvous::LaunchOrder> orders;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const auto& host = plan.hosts[i];
    if (several) place.addresses = addresses_of(i, spec, plan, facts);
    auto& order = orders.emplace_back();
    order.epoch = plan.epoch;
    order.program = facts[i].preflight.program_path;
    order.argv = spec.argv;
    order.working_directory = spec.working_directory;
    order.env = environment.sent;
    order.env_from_host = environment.from_host;
    order.rank_secret = rank_secret.hex();
    for (const auto& rank : host.ranks) {
      order.ranks.push_back({rank.rank, rank.local_rank, rank_variables(plan, host, rank, place)});
    }
  }
  return orders;
}

}  // namespace hv::launcher
