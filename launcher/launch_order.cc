#include "launcher/launch_order.h"

#include <algorithm>
#include <iterator>

#include "launcher/diagnose/ib_advice.h"
#include "launcher/slurm_step.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

namespace {

// What NCCL is told about InfiniBand and RoCE: for the network that has been chosen, on all hosts
// alike.
void add_cards(diagnose::NicPlan& plan, const std::vector<diagnose::NicHost>& hosts,
               const std::vector<HostFacts>& facts, bool only_chosen_nics) {
  std::vector<diagnose::HostCards> cards;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& choice = plan.hosts[i];
    diagnose::IbWish wish{diagnose::is_ipv6(choice.addresses.front()),
                          only_chosen_nics ? choice.names : std::vector<std::string>{},
                          hosts[i].set};
    cards.push_back({hosts[i].name, facts[i].hello.cards, std::move(wish)});
  }
  auto comparison = diagnose::compare_cards(std::move(cards));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto& advice = comparison.advice[i];
    std::ranges::move(advice.set, std::back_inserter(plan.hosts[i].set));
    for (const auto& note : advice.notes) plan.notes.push_back(hosts[i].name + ": " + note);
    for (const auto& note : advice.conflicts) plan.warnings.push_back(hosts[i].name + ": " + note);
  }
  std::ranges::move(comparison.warnings, std::back_inserter(plan.warnings));
}

void append(Variables& variables, const Variables& more) {
  variables.insert(variables.end(), more.begin(), more.end());
}

// Within Slurm as its tasks would be, where it comes out even: then it does not matter whose cores
// the agent's mask holds.
rendezvous::Bind choose_bind(const JobSpec& spec, const HostPlan& host, int cpus) {
  using rendezvous::Bind;
  if (spec.bind) return *spec.bind;
  if (!spec.slurm || !spec.slurm->cpus_asked) return Bind::kNone;
  int needed = spec.slurm->cpus_per_task * static_cast<int>(host.ranks.size());
  return needed == cpus ? Bind::kCore : Bind::kNone;
}

}  // namespace

diagnose::NicPlan make_nic_plan(const JobSpec& spec, const Plan& plan,
                                const RankEnvironment& environment,
                                const std::vector<HostFacts>& facts) {
  std::vector<diagnose::NicHost> hosts;
  std::vector<diagnose::Contact> contacts;
  std::size_t here = diagnose::kNotInPlan;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (plan.hosts[i].local) here = i;
  }
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto& hello = facts[i].hello;
    auto set = environment.sent;
    set.insert(set.end(), hello.nccl_conf.begin(), hello.nccl_conf.end());
    hosts.push_back({plan.hosts[i].host.name, hello.identity, hello.interfaces,
                     i == here ? spec.advertise_address : "", std::move(set)});
    if (hello.reached_from.empty()) continue;
    contacts.push_back({i, here, hello.reached_from, facts[i].seen_as, hello.server_address});
  }
  auto nics = diagnose::choose_nics(hosts, contacts, spec.nics);
  add_cards(nics, hosts, facts, !spec.nics.empty());
  return nics;
}

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
                                                        const diagnose::NicPlan& nics,
                                                        const std::string& job,
                                                        const rendezvous::Secret& rank_secret) {
  bool several = !nics.hosts.empty();
  RankPlace place{job, rendezvous::build_id(), rank_secret, {}, "127.0.0.1", 0};
  if (several) place.master_address = nics.hosts.front().addresses.front();
  place.master_port = facts.front().preflight.master_port;
  place.port_low = spec.port_low;
  place.port_high = spec.port_high;

  std::vector<rendezvous::LaunchOrder> orders;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const auto& host = plan.hosts[i];
    if (several) place.addresses = nics.hosts[i].addresses;
    auto& order = orders.emplace_back();
    order.epoch = plan.epoch;
    order.program = facts[i].preflight.program_path;
    order.argv = spec.argv;
    order.working_directory = spec.working_directory;
    order.env = environment.sent;
    if (several) {
      const auto& set = nics.hosts[i].set;
      order.env.insert(order.env.end(), set.begin(), set.end());
    }
    order.env_from_host = environment.from_host;
    order.bind = choose_bind(spec, host, facts[i].hello.cpus);
    order.rank_secret = rank_secret.hex();
    for (const auto& rank : host.ranks) {
      auto env = rank_variables(plan, host, rank, place);
      const auto* slurm = spec.slurm ? &*spec.slurm : nullptr;
      append(env, device_variables(slurm, rank.local_rank, facts[i].hello.device_masks));
      if (slurm != nullptr) append(env, slurm_task_variables(plan, host, rank));
      order.ranks.push_back({rank.rank, rank.local_rank,
                             spec.input_to_all || spec.input_rank == rank.rank, std::move(env)});
    }
  }
  return orders;
}

std::vector<std::string> describe_cards(const HostPlan& host, const HostFacts& facts,
                                        const rendezvous::LaunchOrder& order) {
  std::vector<std::string> lines;
  for (const auto& rank : order.ranks) {
    auto value = [&](const std::string& name, const std::string& otherwise) {
      auto own = std::ranges::find(rank.env, name, &rendezvous::KeyValue::key);
      return own == rank.env.end() ? otherwise : own->value;
    };
    for (const auto& [name, mask] : facts.hello.device_masks) {
      lines.push_back("rank " + std::to_string(rank.rank) + " on " + host.host.name + ": " + name +
                      "=" + value(name, mask) + ", card " + value("HVRUN_DEVICE", "?") +
                      " of these");
    }
  }
  return lines;
}

}  // namespace hv::launcher
