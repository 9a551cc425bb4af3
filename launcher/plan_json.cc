#include "launcher/plan_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/contract.h"

namespace hv::launcher {

using Json = nlohmann::ordered_json;

namespace {

Json host_json(const Plan& plan, const HostPlan& host) {
  Json json;
  json["host"] = host.host.name;
  json["local"] = host.local;
  if (!host.host.user.empty()) json["user"] = host.host.user;
  if (host.host.ssh_port != 0) json["port"] = host.host.ssh_port;
  json["slots"] = std::max(host.host.slots, 1);
  json["source"] = host.host.source;
  json["ranks"] = Json::array();
  for (const auto& rank : host.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"size", plan.size},
                             {"local_rank", rank.local_rank},
                             {"local_size", rank.local_size},
                             {"cross_rank", rank.cross_rank},
                             {"cross_size", rank.cross_size}});
  }
  return json;
}

// What tells a rank its place differs by rank, and some of it is known only when all hosts are up.
std::vector<std::string> place_names(const Plan& plan) {
  RankPlace place{"job", "build", rendezvous::Secret::random(), {}, "address", 1};
  std::vector<std::string> names{"HVRUN_AGENT"};
  for (const auto& v : rank_variables(plan, plan.hosts[0], plan.hosts[0].ranks[0], place)) {
    names.push_back(v.key);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string plan_json(const JobSpec& spec, const Plan& plan, const RankEnvironment& environment) {
  Json json;
  json["size"] = plan.size;
  json["program"] = spec.program;
  json["argv"] = spec.argv;
  json["working_directory"] = spec.working_directory;
  json["hosts"] = Json::array();
  for (const auto& host : plan.hosts) json["hosts"].push_back(host_json(plan, host));

  auto sent = environment.sent;
  std::ranges::sort(sent, {}, &rendezvous::KeyValue::key);
  Json& variables = json["environment"];
  variables["sent"] = Json::object();
  for (const auto& variable : sent) {
    variables["sent"][variable.key] = looks_secret(variable.key) ? "***" : variable.value;
  }
  variables["from_each_host"] = environment.from_host;
  variables["for_each_rank"] = place_names(plan);
  // Names and values are bytes, not always UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hv::launcher
