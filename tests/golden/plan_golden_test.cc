// Command line → plan. Each plan/NAME.args (one argument a line) has its plan/NAME.json, or its
// plan/NAME.txt where the command line is wrong. HV_UPDATE_GOLDEN=1 writes the answers anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/hvrun/command_line.h"
#include "launcher/hosts.h"
#include "launcher/plan_json.h"

namespace hv::launcher {
namespace {

namespace fs = std::filesystem;

const ThisMachine kMachine{"me", {"localhost", "127.0.0.1", "::1", "box", "10.0.0.1"}, {}};
const Variables kOwn = {
    {"PATH", "/bin"}, {"HOME", "/home/me"}, {"MY_TOKEN", "hush"}, {"NCCL_ALGO", "Tree"}};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

base::Result<std::string> answer_to(const std::vector<std::string>& args) {
  auto line = apps::parse_command_line(args);
  if (!line) return base::fail(line.error());
  auto plan = make_plan(line->spec.hosts, line->spec.np, 0);
  if (!plan) return base::fail(plan.error());
  for (auto& host : plan->hosts) host.local = is_local(host.host, kMachine);
  auto environment = make_environment(kOwn, line->spec);
  if (!environment) return base::fail(environment.error());
  return plan_json(line->spec, *plan, *environment);
}

class PlanGolden : public testing::TestWithParam<std::string> {};

TEST_P(PlanGolden, Answer) {
  fs::path base = fs::path(HV_GOLDEN) / "plan" / GetParam();
  std::vector<std::string> args;
  std::ifstream file(base.string() + ".args");
  for (std::string line; std::getline(file, line);) args.push_back(line);

  auto answer = answer_to(args);
  std::string text = answer ? *answer : answer.error().text + "\n";
  std::string path = base.string() + (answer ? ".json" : ".txt");
  if (std::getenv("HV_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read(path)) << path;
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path(HV_GOLDEN) / "plan")) {
    if (entry.path().extension() == ".args") found.push_back(entry.path().stem());
  }
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(All, PlanGolden, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace hv::launcher
