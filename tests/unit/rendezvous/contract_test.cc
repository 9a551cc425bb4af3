#include "rendezvous/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hv::rendezvous {
namespace {

using base::Code;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

base::Result<Contract> read(const Variables& variables) {
  return read_contract([&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

Contract example() {
  Contract contract;
  contract.rank = 5;
  contract.size = 8;
  contract.local_rank = 1;
  contract.local_size = 4;
  contract.cross_rank = 1;
  contract.cross_size = 2;
  contract.epoch = 3;
  contract.job = "j1";
  contract.host = "h2";
  contract.num_hosts = 2;
  contract.agent_socket = "@hv-agent";
  contract.secret = Secret::random();
  contract.build_id = build_id();
  contract.addresses = {"10.0.0.2", "fe80::2%eth0"};
  contract.port_low = 31000;
  contract.port_high = 31015;
  contract.master_address = "10.0.0.1";
  contract.master_port = 29500;
  return contract;
}

Variables variables_of(const Contract& contract) {
  Variables variables;
  for (const auto& one : contract_variables(contract)) {
    EXPECT_TRUE(variables.emplace(one.key, one.value).second) << one.key << " twice";
  }
  return variables;
}

TEST(Contract, NothingSetIsAlone) {
  auto contract = read({{"HVRUN_LOG_LEVEL", "debug"}, {"PATH", "/bin"}});
  ASSERT_TRUE(contract);
  EXPECT_TRUE(contract->alone());
  EXPECT_EQ(contract->size, 1);
}

TEST(Contract, WhatWasWrittenIsRead) {
  auto written = example();
  auto read_back = read(variables_of(written));
  ASSERT_TRUE(read_back) << read_back.error().text;
  EXPECT_FALSE(read_back->alone());
  EXPECT_EQ(variables_of(*read_back), variables_of(written));

  EXPECT_EQ(read_back->port_high, 31015);

  written.agent_socket.clear();
  written.servers = {{"10.0.0.1", 4000}, {"::1", 4000}};
  read_back = read(variables_of(written));
  ASSERT_TRUE(read_back) << read_back.error().text;
  EXPECT_EQ(read_back->servers, written.servers);
}

TEST(Contract, OtherToolsNamesAreWritten) {
  auto variables = variables_of(example());
  EXPECT_EQ(variables["HOROVOD_RANK"], "5");
  EXPECT_EQ(variables["HOROVOD_CROSS_SIZE"], "2");
  EXPECT_EQ(variables["HOROVOD_HOSTNAME"], "h2");
  EXPECT_EQ(variables["RANK"], "5");
  EXPECT_EQ(variables["WORLD_SIZE"], "8");
  EXPECT_EQ(variables["LOCAL_RANK"], "1");
  EXPECT_EQ(variables["LOCAL_WORLD_SIZE"], "4");
  EXPECT_EQ(variables["GROUP_RANK"], "1");
  EXPECT_EQ(variables["MASTER_ADDR"], "10.0.0.1");
  EXPECT_EQ(variables["MASTER_PORT"], "29500");
}

TEST(Contract, HalfOfItIsAnErrorThatNamesTheRest) {
  auto variables = variables_of(example());
  for (const char* name :
       {"HVRUN_RANK", "HVRUN_SIZE", "HVRUN_LOCAL_RANK", "HVRUN_LOCAL_SIZE", "HVRUN_CROSS_RANK",
        "HVRUN_CROSS_SIZE", "HVRUN_EPOCH", "HVRUN_NUM_HOSTS", "HVRUN_SECRET", "HVRUN_AGENT"}) {
    auto half = variables;
    half.erase(name);
    auto contract = read(half);
    ASSERT_FALSE(contract) << name;
    EXPECT_EQ(contract.error().code, Code::kUsage);
    EXPECT_THAT(contract.error().text, HasSubstr(std::string("missing: ") + name));
    EXPECT_FALSE(read({{name, variables[name]}})) << name << " alone";
  }
}

TEST(Contract, NumbersAreChecked) {
  for (auto [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"HVRUN_RANK", "8"},
                                                                  {"HVRUN_RANK", "-1"},
                                                                  {"HVRUN_RANK", "x"},
                                                                  {"HVRUN_SIZE", "0"},
                                                                  {"HVRUN_LOCAL_RANK", "4"},
                                                                  {"HVRUN_LOCAL_SIZE", "9"},
                                                                  {"HVRUN_CROSS_RANK", "2"},
                                                                  {"HVRUN_NUM_HOSTS", "0"},
                                                                  {"HVRUN_EPOCH", ""},
                                                                  {"HVRUN_PORT_RANGE", "5"},
                                                                  {"HVRUN_PORT_RANGE", "9-8"},
                                                                  {"HVRUN_PORT_RANGE", "1-65536"},
                                                                  {"MASTER_PORT", "65536"}}) {
    auto variables = variables_of(example());
    variables[name] = value;
    auto contract = read(variables);
    ASSERT_FALSE(contract) << name << "=" << value;
    EXPECT_EQ(contract.error().code, Code::kUsage);
    EXPECT_THAT(contract.error().text, HasSubstr(std::string(name) + "=" + value));
  }
}

TEST(Contract, ADamagedSecretOrServerIsAnErrorThatDoesNotShowTheSecret) {
  auto variables = variables_of(example());
  std::string secret = variables["HVRUN_SECRET"].substr(2);
  variables["HVRUN_SECRET"] = secret;
  auto contract = read(variables);
  ASSERT_FALSE(contract);
  EXPECT_THAT(contract.error().text, HasSubstr("HVRUN_SECRET"));
  EXPECT_THAT(contract.error().text, testing::Not(HasSubstr(secret)));

  variables = variables_of(example());
  variables.erase("HVRUN_AGENT");
  variables["HVRUN_SERVER"] = "10.0.0.1:4000,h1:4000";
  contract = read(variables);
  ASSERT_FALSE(contract);
  EXPECT_THAT(contract.error().text, HasSubstr("HVRUN_SERVER: 'h1:4000'"));
}

TEST(Contract, OneOfSeveralTasksOfAnotherLauncherIsAnErrorWithTheLineToType) {
  std::vector<std::pair<const char*, Variables>> launchers = {
      {"srun", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}}},
      {"srun", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}}},
      {"Open MPI", {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}},
      {"MPICH", {{"PMI_SIZE", "4"}, {"PMI_RANK", "2"}}},
      {"jsrun", {{"JSM_NAMESPACE_SIZE", "4"}, {"JSM_NAMESPACE_RANK", "2"}}},
      {"horovodrun", {{"HOROVOD_SIZE", "4"}, {"HOROVOD_RANK", "2"}}},
      {"torchrun", {{"WORLD_SIZE", "4"}, {"RANK", "2"}, {"TORCHELASTIC_RUN_ID", "x"}}},
  };
  for (auto& [name, variables] : launchers) {
    auto contract = read(variables);
    ASSERT_FALSE(contract) << name;
    EXPECT_EQ(contract.error().code, Code::kUsage);
    EXPECT_THAT(contract.error().text, HasSubstr(name));
    EXPECT_THAT(contract.error().text, HasSubstr("task 2 of 4"));
    EXPECT_THAT(contract.error().text, HasSubstr("hvrun -np 4 "));
  }
}

void expect_alone(const Variables& variables) {
  auto contract = read(variables);
  ASSERT_TRUE(contract) << contract.error().text;
  EXPECT_TRUE(contract->alone());
}

TEST(Contract, OneTaskOfOneIsAlone) {
  expect_alone({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  expect_alone({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
}

// A batch script has the numbers of its allocation but is no task of a step; a step's own count
// wins over the allocation's.
TEST(Contract, ABatchScriptIsAlone) {
  expect_alone({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  expect_alone({{"SLURM_STEP_ID", "0"},
                {"SLURM_PROCID", "0"},
                {"SLURM_STEP_NUM_TASKS", "1"},
                {"SLURM_NTASKS", "4"}});
}

TEST(Contract, OursWinsOverAnotherLaunchers) {
  auto variables = variables_of(example());
  variables.merge(Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}});
  auto contract = read(variables);
  ASSERT_TRUE(contract);
  EXPECT_EQ(contract->rank, 5);
}

TEST(BuildId, IsVersionAndHash) {
  EXPECT_THAT(build_id(), testing::MatchesRegex("[0-9.]+\\+[0-9a-f]{12}"));
}

}  // namespace
}  // namespace hv::rendezvous
