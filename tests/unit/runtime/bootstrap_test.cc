#include "runtime/bootstrap.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace hv::runtime {
namespace {

using Env = std::map<std::string, std::string>;

std::optional<SlurmTask> find(const Env& env) {
  return find_slurm_task([&](const char* name) -> std::optional<std::string> {
    auto at = env.find(name);
    if (at == env.end()) return std::nullopt;
    return at->second;
  });
}

const Env kTask = {{"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "3"},
                   {"SLURM_PROCID", "5"},         {"SLURM_STEP_NUM_TASKS", "8"},
                   {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "h[3,7]"},
                   {"SLURMD_NODENAME", "h7"},     {"SLURM_NTASKS", "16"}};

Env with(const Env& more) {
  auto env = kTask;
  for (const auto& [name, value] : more) env[name] = value;
  return env;
}

TEST(SlurmTask, OfSeveral) {
  auto task = find(kTask);
  ASSERT_TRUE(task);
  EXPECT_EQ(task->rank, 5);
  EXPECT_EQ(task->size, 8);
  EXPECT_EQ(task->nodes, 2);
  EXPECT_EQ(task->first_node, "h3");
  EXPECT_EQ(task->node, "h7");
}

TEST(SlurmTask, NoneWhereAnotherLauncherStartedTheRanks) {
  EXPECT_FALSE(find({}));
  for (const char* name :
       {"HVRUN_RANK", "HVRUN_SECRET", "OMPI_COMM_WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(find(with({{name, "1"}}))) << name;
  }
  EXPECT_FALSE(find(with({{"PMI_SIZE", "4"}})));
  EXPECT_TRUE(find(with({{"PMI_SIZE", "8"}})));
  EXPECT_FALSE(find(with({{"SLURM_STEP_NUM_TASKS", "1"}})));
  EXPECT_FALSE(find(with({{"SLURM_PROCID", "8"}})));
  EXPECT_FALSE(find(with({{"SLURM_PROCID", "x"}})));
  EXPECT_FALSE(find(with({{"SLURM_STEP_ID", "4294967291"}})));  // of a batch script
  EXPECT_FALSE(find({{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));
}

TEST(SlurmTask, FirstOfNodeList) {
  EXPECT_EQ(first_of_node_list("h1"), "h1");
  EXPECT_EQ(first_of_node_list("h1,h2"), "h1");
  EXPECT_EQ(first_of_node_list("n[001-003,007],x"), "n001");
  EXPECT_EQ(first_of_node_list("r[1-2]n[04,7]-ib,x[1]"), "r1n04-ib");
  EXPECT_EQ(first_of_node_list("a,b[1-2]"), "a");
  for (const char* text : {"", "[", "]", "n[", "n[]", "n[1", ",,", "n]1["})
    first_of_node_list(text);
}

TEST(MungeDoor, PortsFollowFromTheStepAndLeaveRoom) {
  auto ports = door_ports(*find(kTask));
  EXPECT_EQ(ports, door_ports(*find(with({{"SLURM_PROCID", "0"}}))));
  EXPECT_NE(ports, door_ports(*find(with({{"SLURM_STEP_ID", "4"}}))));
  EXPECT_EQ(std::set(ports.begin(), ports.end()).size(), ports.size());
  for (auto port : ports) EXPECT_TRUE(port >= 20000 && port < 32000) << port;
}

TEST(MungeDoor, TheWayInIsReadAsItWasWritten) {
  WayIn way{rendezvous::Secret::random(), {{"10.0.0.1", 4000}, {"fd00::2", 5}}};
  auto read = parse_way(spell(way));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->secret.hex(), way.secret.hex());
  EXPECT_EQ(read->servers, way.servers);
  for (const char* text : {"", " ", "12 10.0.0.1:4", "x"}) EXPECT_FALSE(parse_way(text)) << text;
  EXPECT_FALSE(parse_way(way.secret.hex()));
  EXPECT_FALSE(parse_way(way.secret.hex() + " h1:4000"));
}

}  // namespace
}  // namespace hv::runtime
