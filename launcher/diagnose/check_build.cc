#include "launcher/diagnose/check_build.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "launcher/diagnose/build_info.h"

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

}  // namespace

CheckTable check_build(const Roots& roots, base::Millis limit) {
  auto table = titled();
  std::vector<std::vector<Probe>> groups = {launcher_probes(), device_probes(), fabric_probes(),
                                            framework_probes()};
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
  std::ranges::move(limit_checks(roots), std::back_inserter(table.checks));
  return table;
}

}  // namespace hv::launcher::diagnose
