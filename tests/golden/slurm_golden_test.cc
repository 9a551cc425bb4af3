// Slurm's variables → launcher and plan. Each slurm/NAME.env has its slurm/NAME.json; lines that
// begin with "test." are what the machine would say. HV_UPDATE_GOLDEN=1 writes the answers anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/slurm_job.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::map<std::string, std::string> read_env(const fs::path& path) {
  std::map<std::string, std::string> env;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto sign = line.find('=');
    if (!line.starts_with('#') && sign != line.npos) {
      env[line.substr(0, sign)] = line.substr(sign + 1);
    }
  }
  return env;
}

Json plan_of(const SlurmJob& job, int np) {
  Json answer;
  auto plan = make_plan(slurm_hosts(job, np), np > 0 ? np : job.tasks, 0);
  if (!plan) return plan.error().text;
  for (const auto& host : plan->hosts) {
    for (const auto& r : host.ranks) {
      answer.push_back("rank " + std::to_string(r.rank) + "/" + std::to_string(plan->size) + " " +
                       host.host.name + " local " + std::to_string(r.local_rank) + "/" +
                       std::to_string(r.local_size) + " cross " + std::to_string(r.cross_rank) +
                       "/" + std::to_string(r.cross_size));
    }
  }
  return answer;
}

Json answer_for(std::map<std::string, std::string> env) {
  LauncherFacts facts;
  facts.job = read_slurm_job([&](const char* name) -> std::optional<std::string> {
    auto at = env.find(name);
    return at == env.end() ? std::nullopt : std::optional(at->second);
  });
  facts.host_name = env["SLURMD_NODENAME"].empty() ? "login" : env["SLURMD_NODENAME"];
  facts.srun_found = true;
  if (env["test.answer"] == "running") facts.answer = SlurmAnswer::kRunning;
  if (env["test.answer"] == "ended") facts.answer = SlurmAnswer::kEnded;
  Json answer;
  auto decision = decide_launcher(facts);
  if (!decision) return {{"error", decision.error().text}};
  answer["launcher"] = to_string(decision->kind);
  answer["reason"] = decision->reason;
  if (decision->kind == LauncherKind::kSlurm) {
    answer["plan"] = plan_of(**facts.job, std::atoi(env["test.np"].c_str()));
  }
  return answer;
}

TEST(SlurmGolden, VariablesToPlan) {
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(HV_GOLDEN) / "slurm")) {
    if (entry.path().extension() != ".env") continue;
    ++seen;
    auto answer = answer_for(read_env(entry.path())).dump(2) + "\n";
    auto expected = fs::path(entry.path()).replace_extension(".json");
    if (std::getenv("HV_UPDATE_GOLDEN") != nullptr) std::ofstream(expected) << answer;
    std::ostringstream text;
    text << std::ifstream(expected).rdbuf();
    EXPECT_EQ(answer, text.str()) << entry.path();
  }
  EXPECT_GE(seen, 6);
}

}  // namespace
}  // namespace hv::launcher
