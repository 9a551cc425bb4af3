#include "launcher/slurm_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hv::launcher {
namespace {

using testing::HasSubstr;

using Env = std::map<std::string, std::string>;

base::Result<std::optional<SlurmJob>> read(const Env& env) {
  return read_slurm_job([&](const char* name) -> std::optional<std::string> {
    auto at = env.find(name);
    if (at == env.end()) return std::nullopt;
    return at->second;
  });
}

const Env kBatch = {{"SLURM_JOB_ID", "12"},
                    {"SLURM_JOB_NODELIST", "h[1-4]"},
                    {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                    {"SLURM_NTASKS", "7"},
                    {"SLURM_JOB_CPUS_PER_NODE", "8(x4)"},
                    {"SLURMD_NODENAME", "h1"}};

Env with(Env env, const Env& more) {
  for (const auto& [name, value] : more) env[name] = value;
  return env;
}

std::vector<int> slots(const std::vector<HostSpec>& hosts) {
  std::vector<int> all;
  for (const auto& host : hosts) all.push_back(host.slots);
  return all;
}

TEST(SlurmJob, NothingSet) {
  auto job = read({});
  ASSERT_TRUE(job.has_value());
  EXPECT_FALSE(job->has_value());
}

TEST(SlurmJob, BatchScript) {
  auto job = read(kBatch).value().value();
  EXPECT_EQ(describe(job), "job 12");
  EXPECT_EQ(job.tasks, 7);
  EXPECT_EQ(job.this_node, "h1");
  auto hosts = slurm_hosts(job, 0);
  EXPECT_EQ(slots(hosts), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(hosts[3].name, "h4");
  EXPECT_EQ(hosts[3].source, "Slurm job 12");
}

TEST(SlurmJob, StepValuesWin) {
  auto job = read(with(kBatch, {{"SLURM_STEP_ID", "3"},
                                {"SLURM_STEP_NODELIST", "h[2-3]"},
                                {"SLURM_STEP_NUM_TASKS", "4"},
                                {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                                {"SLURM_JOB_CPUS_PER_NODE", "8,6(x2),8"},
                                {"SLURM_PROCID", "2"}}))
                 .value()
                 .value();
  EXPECT_EQ(describe(job), "job 12 step 3");
  EXPECT_EQ(slots(slurm_hosts(job, 0)), (std::vector{3, 1}));
  EXPECT_EQ(job.tasks, 4);
  EXPECT_EQ(job.task, 2);
  EXPECT_EQ(job.nodes[0].name, "h2");
  EXPECT_EQ(job.nodes[0].cpus, 6);
}

TEST(SlurmJob, TheShellOfSallocIsNoStepOfItsOwn) {
  // 0xfffffffa: the interactive step runs on one node, the job on four.
  auto job = read(with(kBatch, {{"SLURM_STEP_ID", "4294967290"},
                                {"SLURM_STEP_NODELIST", "h1"},
                                {"SLURM_STEP_NUM_TASKS", "1"},
                                {"SLURM_STEP_TASKS_PER_NODE", "1"}}))
                 .value()
                 .value();
  EXPECT_EQ(job.step, "");
  EXPECT_EQ(job.nodes.size(), 4u);
}

TEST(SlurmJob, OlderNamesAndFewerVariables) {
  auto job = read({{"SLURM_JOBID", "9"}, {"SLURM_NODELIST", "a,b,c"}, {"SLURM_NPROCS", "7"}})
                 .value()
                 .value();
  EXPECT_EQ(slots(slurm_hosts(job, 0)), (std::vector{3, 2, 2}));
  EXPECT_EQ(job.tasks, 7);
  job = read({{"SLURM_JOBID", "9"}, {"SLURM_NODELIST", "a,b"}, {"SLURM_NTASKS_PER_NODE", "4"}})
            .value()
            .value();
  EXPECT_EQ(job.tasks, 8);
  job = read({{"SLURM_JOBID", "9"}, {"SLURM_NODELIST", "a,b"}}).value().value();
  EXPECT_EQ(slots(slurm_hosts(job, 0)), (std::vector{1, 1}));
}

TEST(SlurmJob, ArrayElement) {
  auto job = read(with(kBatch, {{"SLURM_ARRAY_JOB_ID", "100"}, {"SLURM_ARRAY_TASK_ID", "7"}}));
  EXPECT_EQ(describe(job.value().value()), "job 100_7");
}

TEST(SlurmJob, MoreRanksThanTasksUseTheJobsCores) {
  auto job = read({{"SLURM_JOB_ID", "1"},
                   {"SLURM_JOB_NODELIST", "a,b"},
                   {"SLURM_TASKS_PER_NODE", "1(x2)"},
                   {"SLURM_JOB_CPUS_PER_NODE", "8,2"}})
                 .value()
                 .value();
  EXPECT_EQ(slots(slurm_hosts(job, 4)), (std::vector{2, 2}));
  EXPECT_EQ(slots(slurm_hosts(job, 7)), (std::vector{5, 2}));
  EXPECT_EQ(slots(slurm_hosts(job, 99)), (std::vector{8, 2}));  // make_plan refuses the rest
  job.cpus_per_task = 2;
  EXPECT_EQ(slots(slurm_hosts(job, 99)), (std::vector{4, 1}));
}

TEST(SlurmJob, RefusesWhatDoesNotFit) {
  auto text = [](const Env& env) {
    auto job = read(env);
    return job ? std::string("accepted") : job.error().text;
  };
  EXPECT_THAT(text({{"SLURM_JOB_ID", "12"}}), HasSubstr("SLURM_JOB_NODELIST is not"));
  EXPECT_THAT(text(with(kBatch, {{"SLURM_TASKS_PER_NODE", "2(x3)"}})),
              HasSubstr("SLURM_TASKS_PER_NODE=2(x3) is for 3 nodes, but SLURM_JOB_NODELIST has 4"));
  EXPECT_THAT(text(with(kBatch, {{"SLURM_TASKS_PER_NODE", "two"}})), HasSubstr("not a count"));
  EXPECT_THAT(text(with(kBatch, {{"SLURM_JOB_NODELIST", "h[1"}})), HasSubstr("at character 2"));
  EXPECT_THAT(text(with(kBatch, {{"SLURM_NTASKS", "many"}})), HasSubstr("SLURM_NTASKS=many"));
  EXPECT_THAT(text(with(kBatch, {{"SLURM_JOB_NODELIST", ","}})), HasSubstr("names no node"));
}

// ---- the decision ------------------------------------------------------------------------------

LauncherFacts in_job(const Env& env = kBatch) {
  LauncherFacts facts;
  facts.job = read(env);
  facts.host_name = "h1";
  facts.srun_found = true;
  return facts;
}

std::string decide(const LauncherFacts& facts) {
  auto decision = decide_launcher(facts);
  if (!decision) return "error: " + decision.error().text;
  return std::string(to_string(decision->kind)) + ": " + decision->reason;
}

HostSpec host(std::string name) { return {std::move(name), {}, 0, 1, "-H"}; }

TEST(LauncherDecision, NoSlurm) {
  LauncherFacts facts;
  EXPECT_EQ(decide(facts), "local: no Slurm job; no hosts were given");
  facts.given = {host("localhost")};
  facts.given_local = true;
  EXPECT_EQ(decide(facts), "local: no Slurm job; all hosts are this one");
  facts.given_local = false;
  EXPECT_EQ(decide(facts), "ssh: no Slurm job; hosts were given");
}

TEST(LauncherDecision, BatchScriptOnANodeOfTheJob) {
  EXPECT_EQ(decide(in_job()), "slurm: Slurm job 12 on 4 nodes");
  auto facts = in_job();
  facts.host_name = "h1.cluster.example";
  EXPECT_EQ(decide(facts), "slurm: Slurm job 12 on 4 nodes");
}

TEST(LauncherDecision, VariablesLeftOverOnALoginNode) {
  auto env = kBatch;
  env.erase("SLURMD_NODENAME");
  auto facts = in_job(env);
  facts.host_name = "login";
  facts.answer = SlurmAnswer::kEnded;
  EXPECT_THAT(decide(facts), HasSubstr("local: SLURM_JOB_ID=12 is set, but Slurm knows no such"));
  EXPECT_TRUE(decide_launcher(facts)->surprising);
  facts.given = {host("x1")};
  EXPECT_THAT(decide(facts), HasSubstr("ssh: SLURM_JOB_ID=12 is set, but Slurm knows no such"));
  facts.answer = SlurmAnswer::kNone;
  facts.srun_found = false;
  EXPECT_THAT(decide(facts), HasSubstr("ssh: SLURM_JOB_ID=12 is set, but srun is not in PATH"));
}

TEST(LauncherDecision, VariablesOfAnEndedJobOnItsOwnNode) {
  auto facts = in_job();
  facts.answer = SlurmAnswer::kEnded;
  EXPECT_THAT(decide(facts), HasSubstr("local: SLURM_JOB_ID=12 is set, but Slurm knows no such"));
  facts.in_job_cgroup = true;  // the cgroup is a better witness than an accounting delay
  EXPECT_EQ(decide(facts), "slurm: Slurm job 12 on 4 nodes");
}

TEST(LauncherDecision, VariablesCarriedToAnotherMachine) {
  auto facts = in_job();
  facts.host_name = "elsewhere";
  EXPECT_THAT(decide(facts), HasSubstr("local: SLURM_JOB_ID=12 is set, but this machine is not"));
}

TEST(LauncherDecision, ShellOfSallocOnTheLoginNode) {
  auto env = kBatch;
  env.erase("SLURMD_NODENAME");
  auto facts = in_job(env);
  facts.host_name = "login";
  facts.answer = SlurmAnswer::kRunning;
  EXPECT_EQ(decide(facts), "slurm: Slurm job 12 on 4 nodes");
  facts.answer = SlurmAnswer::kNone;  // a busy controller
  EXPECT_EQ(decide(facts), "slurm: Slurm job 12 on 4 nodes");
}

TEST(LauncherDecision, HostsInsideAndOutsideOfTheJob) {
  auto facts = in_job();
  facts.given = {host("h2"), host("h3.cluster.example")};
  EXPECT_EQ(decide(facts), "slurm: Slurm job 12 on 4 nodes");
  facts.given.push_back(host("h9"));
  EXPECT_EQ(decide(facts),
            "ssh: the hosts given are not all nodes of Slurm job 12; hosts were given");
}

TEST(LauncherDecision, SrunStartedHvrunManyTimes) {
  Env step = {{"SLURM_STEP_ID", "0"},
              {"SLURM_STEP_NODELIST", "h[1-4]"},
              {"SLURM_STEP_NUM_TASKS", "7"},
              {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
              {"SLURM_PROCID", "3"}};
  EXPECT_THAT(decide(in_job(with(kBatch, step))),
              HasSubstr("error: srun has started hvrun 7 times; this is copy 3"));
  step["SLURM_PTY_PORT"] = "4000";
  EXPECT_EQ(decide(in_job(with(kBatch, step))), "slurm: Slurm job 12 step 0 on 4 nodes");
}

TEST(LauncherDecision, AskedFor) {
  auto facts = in_job();
  facts.asked = LauncherKind::kSsh;
  EXPECT_EQ(decide(facts), "ssh: asked for by --launcher ssh");
  facts.asked = LauncherKind::kLocal;
  EXPECT_EQ(decide(facts), "local: asked for by --launcher local");
  facts.asked = LauncherKind::kSlurm;
  facts.answer = SlurmAnswer::kEnded;  // the user knows better
  EXPECT_EQ(decide(facts), "slurm: asked for by --launcher slurm");
  facts.given = {host("x1")};
  EXPECT_THAT(decide(facts), HasSubstr("the hosts given are not all nodes of Slurm job 12"));
  facts.given.clear();
  facts.srun_found = false;
  EXPECT_THAT(decide(facts), HasSubstr("srun is not in PATH"));
  facts.job = std::optional<SlurmJob>();
  EXPECT_THAT(decide(facts), HasSubstr("SLURM_JOB_ID is not set"));
}

TEST(LauncherDecision, BrokenVariables) {
  auto facts = in_job({{"SLURM_JOB_ID", "12"}});
  EXPECT_THAT(decide(facts), HasSubstr("error: SLURM_JOB_ID=12 is set, but SLURM_JOB_NODELIST"));
  facts.given = {host("x1")};
  EXPECT_EQ(decide(facts), "ssh: Slurm's variables are broken; hosts were given");
  facts.asked = LauncherKind::kSlurm;
  EXPECT_THAT(decide(facts), HasSubstr("error: SLURM_JOB_ID=12 is set"));
}

TEST(LauncherDecision, NoSrunInsideAJob) {
  auto facts = in_job();
  facts.srun_found = false;
  EXPECT_THAT(decide(facts), HasSubstr("error: inside Slurm job 12, but srun is not in PATH"));
  facts.job->value().nodes.resize(1);
  EXPECT_EQ(decide(facts), "local: srun is not in PATH; this is the only node of Slurm job 12");
}

TEST(LauncherChoice, Words) {
  EXPECT_EQ(*parse_launcher("auto"), std::nullopt);
  EXPECT_EQ(*parse_launcher("slurm"), LauncherKind::kSlurm);
  EXPECT_THAT(parse_launcher("mpi").error().text, HasSubstr("auto, local, ssh and slurm"));
}

}  // namespace
}  // namespace hv::launcher
