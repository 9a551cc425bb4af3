// What each agent is told to start, from the plan and from what the agents have found. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/diagnose/nic.h"
#include "launcher/environment.h"
#include "launcher/job_spec.h"
#include "launcher/plan.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// What is known of a host when all are up.
struct HostFacts {
  rendezvous::AgentHello hello;
  rendezvous::PreflightReply preflight;
  std::string seen_as;  // address that its connection came from; empty: no TCP
};

// Addresses, interfaces and cards of each host, for a job on several.
diagnose::NicPlan make_nic_plan(const JobSpec& spec, const Plan& plan,
                                const RankEnvironment& environment,
                                const std::vector<HostFacts>& facts);

rendezvous::Preflight make_preflight(const JobSpec& spec, const RankEnvironment& environment,
                                     bool hold_master_port);

// One order for each host of the plan. `nics` is empty for a job on one host.
std::vector<rendezvous::LaunchOrder> make_launch_orders(const JobSpec& spec, const Plan& plan,
                                                        const RankEnvironment& environment,
                                                        const std::vector<HostFacts>& facts,
                                                        const diagnose::NicPlan& nics,
                                                        const std::string& job,
                                                        const rendezvous::Secret& rank_secret);

// "rank 3 on h2: CUDA_VISIBLE_DEVICES=1, card 0 of these", a line for each rank of a host that says
// which cards may be used.
std::vector<std::string> describe_cards(const HostPlan& host, const HostFacts& facts,
                                        const rendezvous::LaunchOrder& order);

}  // namespace hv::launcher
