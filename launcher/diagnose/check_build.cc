#include "launcher/diagnose/check_build.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "launcher/diagnose/build_info.h"
#include "launcher/diagnose/ib_advice.h"
#include "launcher/diagnose/nic_list.h"

namespace hv::launcher::diagnose {

namespace {

CheckTable titled() {
  CheckTable table;
  table.version = kBuildInfo.version;
  table.git = kBuildInfo.git;
  table.compiler = kBuildInfo.compiler;
  table.build_type = kBuildInfo.build_type;
  table.title =
      "hvrun " + table.version + " (" + (table.git.empty() ? "no git commit" : "git " + table.git) +
      ", " + table.compiler + ", " + table.build_type +
      (kBuildInfo.sanitizers.empty() ? "" : ", sanitizers " + std::string(kBuildInfo.sanitizers)) +
      ")";
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) table.host = name;
  return table;
}

// NCCL's settings as it will find them: the environment, then the files that it reads itself.
std::vector<rendezvous::KeyValue> nccl_settings() {
  std::vector<rendezvous::KeyValue> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    auto sign = text.find('=');
    if (!text.starts_with("NCCL_") || sign == text.npos) continue;
    settings.push_back({std::string(text.substr(0, sign)), std::string(text.substr(sign + 1))});
  }
  std::ranges::move(read_nccl_conf(), std::back_inserter(settings));
  return settings;
}

std::vector<Check> fabric_checks(const Roots& roots) {
  auto devices = read_ib_devices(roots.sys);
  auto checks = describe_ports(devices, read_gpus(roots.sys));
  auto advice = advise(devices, {{}, {}, nccl_settings(), {}});
  const auto group = checks.front().group;
  for (const auto& [name, text] : advice.set) {
    Check check = value(group, name, text);
    check.reason = "recommended";
    checks.push_back(std::move(check));
  }
  std::ranges::move(advice.conflicts, std::back_inserter(advice.notes));
  for (const auto& note : advice.notes) {
    Check check = value(group, "note", "-");
    check.reason = note;
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace

CheckTable check_build(const Roots& roots, base::Millis limit) {
  auto table = titled();
  std::vector<std::vector<Probe>> groups = {launcher_probes(roots), device_probes(),
                                            fabric_probes(), framework_probes()};
  std::vector<Question> questions;
  for (const auto& group : groups) {
    for (const auto& probe : group) questions.push_back(probe.question);
  }
  auto replies = ask(questions, limit);
  auto reply = replies.begin();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const auto& probe : groups[i]) {
      std::ranges::move(probe.judge(*reply++, limit), std::back_inserter(table.checks));
    }
    if (i > 0) continue;
    std::ranges::move(data_path_checks(), std::back_inserter(table.checks));
    std::ranges::move(simd_checks(roots), std::back_inserter(table.checks));
  }
  std::ranges::move(fabric_checks(roots), std::back_inserter(table.checks));
  std::ranges::move(limit_checks(roots), std::back_inserter(table.checks));
  return table;
}

}  // namespace hv::launcher::diagnose
