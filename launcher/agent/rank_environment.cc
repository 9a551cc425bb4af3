#include "launcher/agent/rank_environment.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace hv::launcher {

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

EnvironmentBlock host_environment(const rendezvous::LaunchOrder& order,
                                  const std::string& agent_socket, const char* const* own) {
  std::map<std::string, std::string, std::less<>> variables;
  for (auto entry = own; *entry != nullptr; ++entry) {
    std::string text(*entry);
    std::string name(name_of(text));
    if (name.empty() || name.size() == text.size()) continue;
    bool wanted = std::ranges::any_of(order.env_from_host, [&](const std::string& pattern) {
      return pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
    });
    if (wanted) variables[name] = text.substr(name.size() + 1);
  }
  if (variables.contains("PWD")) variables["PWD"] = order.working_directory;
  for (const auto& [name, value] : order.env) variables[name] = value;
  variables["HVRUN_AGENT"] = agent_socket;

  EnvironmentBlock block;
  for (const auto& [name, value] : variables) block.push_back(name + "=" + value);
  std::ranges::sort(block, {}, name_of);
  return block;
}

EnvironmentBlock rank_environment(const EnvironmentBlock& host, const rendezvous::RankOrder& rank) {
  EnvironmentBlock block = host;
  for (const auto& [name, value] : rank.env) {
    auto place = std::ranges::lower_bound(block, std::string_view(name), {}, name_of);
    if (place != block.end() && name_of(*place) == name) {
      *place = name + "=" + value;
    } else {
      block.insert(place, name + "=" + value);
    }
  }
  return block;
}

}  // namespace hv::launcher
