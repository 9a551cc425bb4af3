// Binding and what the kernel leaves behind, from hand-made trees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/binding.h"
#include "launcher/agent/post_mortem.h"

namespace hv::launcher {
namespace {

using rendezvous::Bind;
using testing::ElementsAre;
using testing::IsEmpty;

// Two nodes of two cores of two threads: cpu N and N+4 share core N.
Topology two_nodes() {
  return {{0, 0, 0, 0}, {4, 0, 0, 0}, {1, 0, 0, 1}, {5, 0, 0, 1},
          {2, 1, 1, 0}, {6, 1, 1, 0}, {3, 1, 1, 1}, {7, 1, 1, 1}};
}

std::vector<int> cpus(Bind bind, int rank, std::size_t size) {
  return choose_place(two_nodes(), bind, rank, size).cpus;
}

TEST(Binding, NoneLeavesTheMask) {
  EXPECT_THAT(cpus(Bind::kNone, 0, 2), IsEmpty());
  EXPECT_EQ(describe(two_nodes(), {}), "not bound, cpus 0-7 of nodes 0-1");
}

TEST(Binding, CoresAreSharedOutInOrder) {
  EXPECT_THAT(cpus(Bind::kCore, 0, 4), ElementsAre(0, 4));
  EXPECT_THAT(cpus(Bind::kCore, 3, 4), ElementsAre(3, 7));
  EXPECT_THAT(cpus(Bind::kCore, 1, 2), ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(cpus(Bind::kCore, 1, 3), ElementsAre(1, 5));
  EXPECT_THAT(cpus(Bind::kCore, 2, 3), ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(cpus(Bind::kCore, 5, 8), ElementsAre(1, 5)) << "more ranks than cores share";
}

TEST(Binding, NodesComeWithTheirMemory) {
  auto place = choose_place(two_nodes(), Bind::kNuma, 3, 4);
  EXPECT_THAT(place.cpus, ElementsAre(2, 6, 3, 7));
  EXPECT_EQ(place.node, 1);
  EXPECT_EQ(describe(two_nodes(), place), "cpus 2-3,6-7 of node 1");
  EXPECT_EQ(choose_place(two_nodes(), Bind::kNuma, 0, 1).node, 0);
  EXPECT_THAT(choose_place({}, Bind::kCore, 0, 1).cpus, IsEmpty());
}

TEST(PostMortem, CorePatterns) {
  EXPECT_EQ(core_file("core", false, 7, "/w"), "/w/core");
  EXPECT_EQ(core_file("core", true, 7, "/w"), "/w/core.7");
  EXPECT_EQ(core_file("/cores/c-%p", true, 7, "/w"), "/cores/c-7");
  EXPECT_EQ(core_file("|/usr/lib/handler %p", false, 7, "/w"), "");
  EXPECT_EQ(core_file("core.%e", false, 7, "/w"), "");
  EXPECT_EQ(core_file("", false, 7, "/w"), "");
}

TEST(PostMortem, OomKillsOfTheControlGroup) {
  namespace fs = std::filesystem;
  auto root = fs::path(testing::TempDir()) / ("oom-" + std::to_string(::getpid()));
  auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  EXPECT_EQ(oom_kills(root), -1);
  write("proc/vmstat", "nr_free_pages 1\noom_kill 2\n");
  EXPECT_EQ(oom_kills(root), 2);
  write("proc/self/cgroup", "1:cpu:/x\n0::/job.slice/a\n");
  write("sys/fs/cgroup/job.slice/a/memory.events", "low 0\noom 3\noom_kill 5\noom_group_kill 0\n");
  EXPECT_EQ(oom_kills(root), 5);
  fs::remove_all(root);
}

}  // namespace
}  // namespace hv::launcher
