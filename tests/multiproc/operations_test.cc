// The named operations between real processes: exact results, very large tensors, process sets, and
// the death of a rank in the middle of a large one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "hv/hv.h"
#include "rendezvous/base/deadline.h"
#include "tests/support/operations_check.h"
#include "tests/support/rank_job.h"
#include "tests/support/soak.h"

namespace hv::tests {
namespace {

using base::Clock;
using ::testing::Each;
using ::testing::HasSubstr;

int report(const std::string& wrong) {
  if (!wrong.empty()) std::printf("%s\n", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

HV_RANK_PROGRAM(operations) {
  World world = join_job();
  test::OperationsCheck all(world, world.process_sets()[0].ranks(), world.rank());
  if (report(all.run({0, 7, 1030, 20'011})) != 0) return 1;
  int wrong = 0;
  for (const std::vector<int>& ranks : {std::vector{0, world.size() - 1}, std::vector{1, 2}}) {
    if (ranks.back() >= world.size() || static_cast<int>(ranks.size()) == world.size()) continue;
    ProcessSet set = world.add_process_set(ranks);
    if (set.included()) {
      test::OperationsCheck check(set, set.ranks(), set.rank());
      wrong += report(check.run({0, 7, 1030}));
    }
    std::vector<float> data(5000, static_cast<float>(world.rank() + 1));
    if (set.included()) set.allreduce("adasum", view(data), {.op = ReduceOp::kAdasum}).wait();
    world.remove_process_set(set);
  }
  return wrong;
}

// More elements than 31 bits count, of which one MiB of memory stands for all.
struct Repeated {
  static constexpr std::size_t kUnit = 1 << 20;
  explicit Repeated(std::size_t units) : bytes(units * kUnit) {
    const int fd = ::memfd_create("repeated", MFD_CLOEXEC);
    if (::ftruncate(fd, kUnit) != 0) std::abort();
    void* at =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data = static_cast<std::uint8_t*>(at);
    for (std::size_t i = 0; i < units; ++i) {
      void* place =
          ::mmap(data + i * kUnit, kUnit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
      if (place == MAP_FAILED) std::abort();
    }
    ::close(fd);
  }
  ~Repeated() { ::munmap(data, bytes); }
  std::size_t bytes;
  std::uint8_t* data = nullptr;
};

HV_RANK_PROGRAM(more_than_31_bits) {
  World world = join_job();
  Repeated memory(2049);
  const auto count = static_cast<std::int64_t>(memory.bytes);
  memory.data[12345] = static_cast<std::uint8_t>(7 + world.rank());
  world.allreduce("max", view(memory.data, {count}), {.op = ReduceOp::kMax}).wait();
  if (memory.data[12345] != 6 + world.size()) return report("the maximum is wrong");
  memory.data[77] = static_cast<std::uint8_t>(world.rank());
  world.broadcast("cast", view(memory.data, {count}), 1).wait();
  if (memory.data[77] != 1) return report("the broadcast is wrong");
  // Rows of a reducescatter to a tensor that stands for itself, too.
  const std::int64_t rows = runtime::share_of_rows(count, world.rank(), world.size());
  Repeated share(static_cast<std::size_t>(rows) / Repeated::kUnit + 1);
  world
      .reducescatter("scatter", view(memory.data, {count}), view(share.data, {rows}),
                     {.op = ReduceOp::kMax})
      .wait();
  return 0;
}

HV_RANK_PROGRAM(one_large_allreduce) {
  World world = join_job();
  const char* size = std::getenv("HV_TEST_MIB");
  std::vector<float> data(static_cast<std::size_t>(std::atoi(size)) << 18, 1);
  for (int step = 0;; ++step) {
    try {
      Handle handle = world.allreduce("large", view(data), {.op = ReduceOp::kMax});
      if (step == 1) std::printf("in the middle\n");
      handle.wait();
    } catch (const Error& error) {
      const auto now =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
      std::printf("ended at %lld: %s\n", static_cast<long long>(now.count()), error.what());
      return error.code() == ErrorCode::kPeerLost ? 0 : 1;
    }
  }
}

std::string shape_name(const ::testing::TestParamInfo<std::vector<int>>& info) {
  std::string name = "hosts";
  for (int ranks : info.param) name += "_" + std::to_string(ranks);
  return name;
}

class OperationsOfProcesses : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  int size() const {
    int ranks = 0;
    for (int here : GetParam()) ranks += here;
    return ranks;
  }
};

TEST_P(OperationsOfProcesses, AreExact) {
  RankJob job({"operations", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(OperationsOfProcesses, NameARankThatIsKilledInTheMiddleOfALargeOne) {
  const std::string mib = "HV_TEST_MIB=" + std::string(soak() ? "1024" : "64");
  for (int i = 0; i < (soak() ? 50 : 1); ++i) {
    RankJob job({"one_large_allreduce", GetParam(), {mib}});
    const int victim = i % size();
    job.wait_for_output(victim, "in the middle");
    const auto killed =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    job.signal(victim, SIGKILL);
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.wait(rank), 0) << job.output(rank);
      const std::string output = job.output(rank);
      EXPECT_THAT(output, HasSubstr("rank " + std::to_string(victim)));
      const auto at = output.find("ended at ");
      ASSERT_NE(at, std::string::npos) << output;
      EXPECT_LT(std::stoll(output.substr(at + 9)) - killed.count(), 2000) << output;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, OperationsOfProcesses,
                         ::testing::Values(std::vector{4}, std::vector{1, 1, 1},
                                           std::vector{2, 1, 2}),
                         shape_name);

TEST(Large, TensorsMayHaveMoreElementsThan31BitsCount) {
  for (auto hosts : {std::vector{2}, std::vector{1, 1}}) {
    if (hosts.size() > 1 && !soak()) continue;
    RankJob job({"more_than_31_bits", hosts, {}});
    EXPECT_THAT(job.wait_all(), Each(0));
  }
}

}  // namespace
}  // namespace hv::tests

int main(int argc, char** argv) {
  hv::tests::run_as_rank(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
