#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/diagnose/cgroup.h"
#include "launcher/diagnose/check_build.h"
#include "tests/support/tree.h"

namespace hv::launcher::diagnose {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr std::int64_t kMiB = 1 << 20;

class Limits : public testing::Test {
 protected:
  CgroupLimits cgroup() const {
    return read_cgroup_limits(tree_.root() / "proc", tree_.root() / "sys");
  }
  Check check(const std::string& name) const {
    Roots roots{tree_.root() / "proc", tree_.root() / "sys", tree_.root() / "shm"};
    auto checks = limit_checks(roots);
    auto found = std::ranges::find(checks, name, &Check::name);
    return found != checks.end() ? *found : no("", name, "no such line");
  }
  test::Tree tree_;
};

TEST_F(Limits, CgroupVersion2TakesTheTightestOnTheWayUp) {
  tree_.write("proc/self/cgroup", "0::/system.slice/slurm/job_12/step_0\n");
  tree_.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  tree_.write("sys/fs/cgroup/system.slice/slurm/job_12/memory.max",
              std::to_string(64 * kMiB) + "\n");
  tree_.write("sys/fs/cgroup/system.slice/slurm/job_12/step_0/memory.max", "max\n");
  tree_.write("sys/fs/cgroup/system.slice/slurm/job_12/step_0/cpu.max", "250000 100000\n");
  tree_.write("sys/fs/cgroup/system.slice/slurm/cpu.max", "max 100000\n");
  auto limits = cgroup();
  EXPECT_EQ(limits.version, "v2");
  EXPECT_THAT(limits.memory, Optional(64 * kMiB));
  EXPECT_THAT(limits.memory_file, HasSubstr("job_12/memory.max"));
  EXPECT_THAT(limits.cpus, Optional(2.5));
  EXPECT_TRUE(in_slurm_cgroup(tree_.root() / "proc", "12"));
  EXPECT_FALSE(in_slurm_cgroup(tree_.root() / "proc", "1"));
}

TEST_F(Limits, CgroupVersion1) {
  tree_.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n");
  tree_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", std::to_string(kMiB) + "\n");
  tree_.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
  tree_.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  tree_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  tree_.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  auto limits = cgroup();
  EXPECT_EQ(limits.version, "v1");
  EXPECT_THAT(limits.memory, Optional(kMiB));
  EXPECT_THAT(limits.cpus, Optional(1.5));
}

TEST_F(Limits, CgroupPathOfTheHostInsideAContainer) {
  tree_.write("proc/self/cgroup", "4:memory:/docker/not-visible\n");
  tree_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(kMiB) + "\n");
  EXPECT_THAT(cgroup().memory, Optional(kMiB));
}

TEST_F(Limits, BothCgroupVersionsAndNone) {
  EXPECT_EQ(cgroup().version, "");
  EXPECT_EQ(check("cgroup").value, "none");
  tree_.write("proc/self/cgroup", "4:memory:/\n0::/\n");
  tree_.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
  EXPECT_EQ(cgroup().version, "v1+v2");
  EXPECT_EQ(check("cgroup memory").value, "no limit");
}

TEST_F(Limits, ResourceLimits) {
  tree_.write("proc/self/limits",
              "Limit                     Soft Limit           Hard Limit           Units     \n"
              "Max processes             96365                96365                processes \n"
              "Max open files            1024                 524288               files     \n"
              "Max locked memory         8388608              unlimited            bytes     \n");
  EXPECT_EQ(check("open files").number, 1024);
  EXPECT_EQ(check("open files").reason, "can be raised to 524288");
  EXPECT_EQ(check("processes").reason, "");
  EXPECT_EQ(check("locked memory").value, "8.0 MiB");
  EXPECT_EQ(check("locked memory").reason, "can be raised to unlimited");
  tree_.folder("sys/class/infiniband/mlx5_0");
  EXPECT_THAT(check("locked memory").reason, HasSubstr("InfiniBand needs unlimited"));
}

TEST_F(Limits, CoresMemoryYamaPages) {
  tree_.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8,10-11\n");
  tree_.write("proc/meminfo",
              "MemTotal:       2097152 kB\nMemAvailable:   1048576 kB\n"
              "HugePages_Total:       4\nHugepagesize:       2048 kB\n");
  tree_.write("proc/sys/kernel/yama/ptrace_scope", "1\n");
  tree_.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(check("cores allowed").number, 7);
  EXPECT_EQ(check("memory").value, "2.0 GiB");
  EXPECT_EQ(check("memory").reason, "1.0 GiB available");
  EXPECT_EQ(check("Yama ptrace_scope").number, 1);
  EXPECT_EQ(check("huge pages").number, 4);
  EXPECT_EQ(check("transparent huge pages").value, "madvise");
}

TEST_F(Limits, NothingThere) {
  EXPECT_EQ(check("open files").answer, Answer::kNo);
  EXPECT_EQ(check("Yama ptrace_scope").value, "off");
  EXPECT_EQ(check("huge pages").value, "none");
  EXPECT_EQ(check((tree_.root() / "shm").string()).answer, Answer::kNo);
}

TEST(Simd, OfAnotherProcessor) {
  test::Tree tree;
  tree.write("cpuinfo", "processor\t: 0\nflags\t\t: fpu sse2 avx2 f16c avx512f avx512bw\n");
  auto checks = simd_checks({tree.root(), tree.root(), tree.root()});
  auto line = [&](const char* name) { return *std::ranges::find(checks, name, &Check::name); };
  if (line("SIMD avx2").reason == "not in this build") GTEST_SKIP() << "no x86-64";
  EXPECT_EQ(line("SIMD avx2").answer, Answer::kYes);
  EXPECT_THAT(line("SIMD avx512").reason, HasSubstr("this CPU has no avx512vl, avx512dq"));
}

}  // namespace
}  // namespace hv::launcher::diagnose
