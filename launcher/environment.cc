#include "launcher/environment.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "launcher/slurm_step.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

using rendezvous::KeyValue;

namespace {

// The kernel's bound for one string of argv or environment, with its final zero (MAX_ARG_STRLEN).
constexpr std::size_t kMaxString = 128 * 1024;

// Set for each job or rank: a value left over from an outer job must not reach it.
constexpr std::array<std::string_view, 5> kOfTheOuterJob = {
    "HVRUN_AGENT", "HVRUN_SERVER", "HVRUN_SECRET", "HVRUN_ADDRESSES", "HVRUN_TERMINAL"};

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const auto& p) { return matches(p, name); });
}

bool is_glob(std::string_view name) { return name.find_first_of("*?[") != name.npos; }

void put(Variables& variables, const KeyValue& variable) {
  auto same = std::ranges::find(variables, variable.key, &KeyValue::key);
  if (same == variables.end()) {
    variables.push_back(variable);
  } else {
    same->value = variable.value;
  }
}

}  // namespace

Variables read_environment(const char* const* environ) {
  Variables variables;
  for (auto entry = environ; *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    auto sign = text.find('=');
    if (sign == text.npos || sign == 0) continue;  // no program can ask for such an entry
    variables.push_back({std::string(text.substr(0, sign)), std::string(text.substr(sign + 1))});
  }
  return variables;
}

const std::vector<std::string>& host_variables() {
  static const std::vector<std::string> names = {
      // login and session
      "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "SSH_*", "SUDO_*", "KRB5CCNAME", "GPG_*",
      "DBUS_SESSION_BUS_ADDRESS", "XDG_*",
      // terminal and shell
      "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_*", "STY", "WINDOW", "WINDOWID",
      "PWD", "OLDPWD", "SHLVL", "_",
      // machine
      "HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "TMPDIR", "TMP", "TEMP",
      // devices
      "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
      "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};
  return names;
}

bool matches(const std::string& pattern, const std::string& name) {
  return pattern == name ||
         (is_glob(pattern) && ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0);
}

base::Result<RankEnvironment> make_environment(const Variables& own, const JobSpec& spec) {
  RankEnvironment env;
  env.from_host = host_variables();
  if (!spec.inherit_environment) env.from_host.emplace_back("PATH");
  if (spec.slurm) {
    const auto& names = slurm_host_variables();
    env.from_host.insert(env.from_host.end(), names.begin(), names.end());
  }

  for (const auto& variable : own) {
    if (std::ranges::find(kOfTheOuterJob, variable.key) != kOfTheOuterJob.end()) continue;
    bool named = matches_any(spec.export_names, variable.key);
    bool inherited = spec.inherit_environment && !matches_any(env.from_host, variable.key);
    if (named || inherited) env.sent.push_back(variable);
  }
  for (const auto& name : spec.export_names) {
    bool set_here = std::ranges::any_of(own, [&](const auto& v) { return matches(name, v.key); });
    if (set_here) continue;
    if (is_glob(name)) {
      env.notes.push_back("-x '" + name + "': no variable of such a name is set here");
    } else {
      env.from_host.push_back(name);
      env.notes.push_back("-x " + name + ": not set here; each host's own value is taken, if any");
    }
  }
  for (const auto& variable : spec.export_values) put(env.sent, variable);
  if (spec.to_terminal) put(env.sent, {"HVRUN_TERMINAL", "1"});
  // Interpreters that hold output back on a pipe would show it at the end only.
  if (std::ranges::find(env.sent, "PYTHONUNBUFFERED", &KeyValue::key) == env.sent.end()) {
    env.sent.push_back({"PYTHONUNBUFFERED", "1"});
  }

  for (const auto& variable : env.sent) {
    auto size = variable.key.size() + 1 + variable.value.size() + 1;
    if (size > kMaxString) {
      return base::fail(base::Code::kUsage,
                        "variable " + variable.key + " is " + base::human_bytes(size) +
                            " long; the kernel passes at most " + base::human_bytes(kMaxString) +
                            " in one variable\n  Put the value into a file, or leave the variable "
                            "out: env -u " +
                            variable.key + " hvrun …");
    }
  }
  return env;
}

Variables rank_variables(const Plan& plan, const HostPlan& host, const RankPlan& rank,
                         const RankPlace& place) {
  rendezvous::Contract contract;
  contract.rank = rank.rank;
  contract.size = plan.size;
  contract.local_rank = rank.local_rank;
  contract.local_size = rank.local_size;
  contract.cross_rank = rank.cross_rank;
  contract.cross_size = rank.cross_size;
  contract.epoch = plan.epoch;
  contract.job = place.job;
  contract.host = host.host.name;
  contract.num_hosts = static_cast<int>(plan.hosts.size());
  contract.secret = place.rank_secret;
  contract.build_id = place.build_id;
  contract.addresses = place.addresses;
  contract.master_address = place.master_address;
  contract.master_port = place.master_port;
  contract.port_low = place.port_low;
  contract.port_high = place.port_high;
  auto variables = rendezvous::contract_variables(contract);
  std::erase_if(variables, [](const KeyValue& v) { return v.key == "HVRUN_SERVER"; });
  return variables;
}

bool looks_secret(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (upper == "KEY" || upper.ends_with("_KEY") || upper.starts_with("KEY_")) return true;
  constexpr std::array<std::string_view, 11> kWords = {
      "SECRET",  "TOKEN",  "PASSW", "PASSPHRASE", "CREDENTIAL", "APIKEY",
      "PRIVATE", "COOKIE", "AUTH",  "_PWD",       "_PASS"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return upper.find(word) != upper.npos; });
}

}  // namespace hv::launcher
