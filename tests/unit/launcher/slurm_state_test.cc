#include "launcher/slurm_state.h"

#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

constexpr const char* kShown = R"(JobId=18 JobName=j.sh
   UserId=ann(20000) GroupId=ann(20000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   NumNodes=3 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   JOB_GRES=gpu:5
     Nodes=h1 CPU_IDs=0-2 Mem=600 GRES=gpu:3(IDX:0-2)
     Nodes=h[2-3] CPU_IDs=0 Mem=200 GRES=gpu:a100:1(IDX:0),shard:4(2/4),gpu:v100:2(IDX:1,3)
     Nodes=h4 CPU_IDs=0 Mem=200 GRES=(null)
   MinCPUsNode=1 MinMemoryCPU=200M MinTmpDiskNode=0
)";

TEST(SlurmJobState, StateOwnerAndCards) {
  auto state = parse_slurm_job_state(kShown);
  EXPECT_TRUE(state.running);
  EXPECT_EQ(state.user, 20000);
  EXPECT_EQ(state.gpus, (std::map<std::string, int>{{"h1", 3}, {"h2", 3}, {"h3", 3}}));
}

TEST(SlurmJobState, AnEndedJobAndNonsense) {
  EXPECT_FALSE(parse_slurm_job_state("   JobState=COMPLETED Reason=None\n").running);
  for (const char* text : {"", "JobState=", "UserId=ann(", "UserId=()", "Nodes=h[1 GRES=gpu:2(",
                           "Nodes=h1 GRES=gpu:", "Nodes=h1 GRES=gpu:x(IDX", "GRES=,,(),("}) {
    auto state = parse_slurm_job_state(text);
    EXPECT_FALSE(state.running) << text;
    EXPECT_EQ(state.user, -1) << text;
    EXPECT_TRUE(state.gpus.empty()) << text;
  }
}

}  // namespace
}  // namespace hv::launcher
