#include "launcher/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hv::launcher {
namespace {

using rendezvous::KeyValue;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

SlurmJob make_job(std::map<std::string, std::string> env, const std::vector<int>& gpus = {}) {
  env.insert({{"SLURM_JOB_ID", "12"},
              {"SLURM_JOB_NODELIST", "h[1-3]"},
              {"SLURM_TASKS_PER_NODE", "2(x3)"}});
  auto job = read_slurm_job([&](const char* name) -> std::optional<std::string> {
    auto at = env.find(name);
    if (at == env.end()) return std::nullopt;
    return at->second;
  });
  auto made = job.value().value();
  for (std::size_t i = 0; i < gpus.size(); ++i) made.nodes[i].gpus = gpus[i];
  return made;
}

std::vector<HostPlan> hosts(const std::vector<std::string>& names) {
  std::vector<HostPlan> plans;
  for (const auto& name : names) {
    plans.push_back({static_cast<std::uint32_t>(plans.size()), {name, {}, 0, 1, {}}, false, {}});
  }
  return plans;
}

std::vector<std::string> names(const SlurmStep& step) {
  std::vector<std::string> list;
  for (const auto& host : step.hosts) list.push_back(host.host.name);
  return list;
}

TEST(SlurmStep, HostsComeInTheOrderOfTheJobsNodes) {
  auto steps = slurm_steps(make_job({}), hosts({"h3", "h1.site"}));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_THAT(names(steps[0]), ElementsAre("h1.site", "h3"));
  EXPECT_EQ(steps[0].hosts[0].index, 1u);
}

TEST(SlurmStep, EvenCardsAreOneStepAndUnevenOnesAStepForEachNode) {
  auto even = slurm_steps(make_job({}, {4, 4, 4}), hosts({"h1", "h2", "h3"}));
  ASSERT_EQ(even.size(), 1u);
  EXPECT_THAT(step_command(even[0], "srun", "/x/hvagent"), Contains("--gres=gpu:4"));
  auto uneven = slurm_steps(make_job({}, {4, 4, 1}), hosts({"h1", "h3"}));
  ASSERT_EQ(uneven.size(), 2u);
  EXPECT_THAT(names(uneven[1]), ElementsAre("h3"));
  EXPECT_THAT(step_command(uneven[1], "srun", "/x/hvagent"), Contains("--gpus=1"));
}

TEST(SlurmStep, TheCommandTakesWholeNodesBesideOtherSteps) {
  auto step = slurm_steps(make_job({}), hosts({"h1", "h2"})).front();
  auto command = step_command(step, "/bin/srun", "/x/hvagent");
  EXPECT_EQ(command.front(), "/bin/srun");
  for (const char* word : {"--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1",
                           "--nodelist=h1,h2", "--cpu-bind=none", "--mem=0", "--mpi=none"}) {
    EXPECT_THAT(command, Contains(word));
  }
  EXPECT_EQ(command[command.size() - 2], "/x/hvagent");
  EXPECT_EQ(command.back(), "--step");
}

TEST(SlurmStep, TheEnvironmentHasNoSettingsOfTasks) {
  auto environment = step_environment({{"PATH", "/bin"},
                                       {"SLURM_JOB_ID", "12"},
                                       {"SLURM_CONF", "/etc/x"},
                                       {"SLURM_GPUS_PER_TASK", "1"},
                                       {"SLURM_GPU_BIND", "single:1"},
                                       {"SLURM_NTASKS_PER_NODE", "4"},
                                       {"SLURM_CPUS_PER_TASK", "2"},
                                       {"SRUN_CPUS_PER_TASK", "2"},
                                       {"SLURM_JOB_NUM_NODES", "4"},
                                       {"SLURM_HOSTFILE", "x"},
                                       {"SLURM_EXACT", "1"},
                                       {"SLURM_SPANK_A", "kept"},
                                       {"PMI_RANK", "0"}});
  EXPECT_THAT(environment, ElementsAre("PATH=/bin", "SLURM_JOB_ID=12", "SLURM_CONF=/etc/x",
                                       "SLURM_SPANK_A=kept"));
}

TEST(SlurmStep, ATaskIsToldItsPlace) {
  auto plan = make_plan({{"h1", {}, 0, 2, {}}, {"h2", {}, 0, 2, {}}, {"h3", {}, 0, 1, {}}}, 0, 0);
  auto told = slurm_task_variables(*plan, plan->hosts[1], plan->hosts[1].ranks[1]);
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : told) variables[name] = value;
  EXPECT_EQ(variables["SLURM_PROCID"], "3");
  EXPECT_EQ(variables["SLURM_LOCALID"], "1");
  EXPECT_EQ(variables["SLURM_NODEID"], "1");
  EXPECT_EQ(variables["SLURM_NTASKS"], "5");
  EXPECT_EQ(variables["SLURM_TASKS_PER_NODE"], "2(x2),1");
}

// CUDA_VISIBLE_DEVICES and HVRUN_DEVICE of one rank; "" where the host's own mask stays.
std::pair<std::string, std::string> card(const SlurmJob& job, int local_rank,
                                         const std::string& mask = "0,1,2,3") {
  std::pair<std::string, std::string> result;
  for (const auto& [name, value] :
       device_variables(&job, local_rank, {{"CUDA_VISIBLE_DEVICES", mask}})) {
    (name == "HVRUN_DEVICE" ? result.second : result.first) = value;
  }
  return result;
}
using Card = std::pair<std::string, std::string>;

TEST(SlurmCards, WithoutABindingARankHasAllCardsAndAnOrdinalOfItsOwn) {
  EXPECT_EQ(card(make_job({}), 2), Card("", "2"));
  EXPECT_EQ(card(make_job({}), 5), Card("", "1"));
  EXPECT_EQ(card(make_job({}), 3, "GPU-7f"), Card("", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_GPU_BIND", "closest"}}), 1), Card("", "1"));
  auto none = device_variables(nullptr, 3, {});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].value, "3");
}

TEST(SlurmCards, PerTask) {
  EXPECT_EQ(card(make_job({{"SLURM_GPUS_PER_TASK", "1"}}), 2), Card("2", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_GPUS_PER_TASK", "a100:2"}}), 1), Card("2,3", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_GPU_BIND", "per_task:2"}}), 0), Card("0,1", "0"));
  auto unbound = make_job({{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_GPU_BIND", "none"}});
  EXPECT_EQ(card(unbound, 2), Card("", "2"));
}

TEST(SlurmCards, SingleMapAndMask) {
  EXPECT_EQ(card(make_job({{"SLURM_GPU_BIND", "verbose,single:2"}}), 3), Card("1", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_NTASKS_PER_GPU", "2"}}), 5), Card("2", "0"));
  auto map = make_job({{"SLURM_GPU_BIND", "map_gpu:3,1*2"}});
  EXPECT_EQ(card(map, 0), Card("3", "0"));
  EXPECT_EQ(card(map, 2), Card("1", "0"));
  EXPECT_EQ(card(map, 3), Card("3", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_GPU_BIND", "mask_gpu:0x3,0xc"}}), 1), Card("2,3", "0"));
  EXPECT_EQ(card(make_job({{"SLURM_TRES_BIND", "gres/gpu:single:1"}}), 1), Card("1", "0"));
}

TEST(SlurmCards, NonsenseChangesNothing) {
  for (const char* bind : {"", "map_gpu:", "map_gpu:x", "mask_gpu:0x", "what:1", ":", "single"}) {
    auto [mask, ordinal] = card(make_job({{"SLURM_GPU_BIND", bind}}), 1);
    EXPECT_TRUE(mask.empty() || mask == "1") << bind;
  }
}

}  // namespace
}  // namespace hv::launcher
