// Worlds of real processes: memory shared through memfds, TCP between pretend hosts.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "hv/hv.h"
#include "rendezvous/base/deadline.h"
#include "tests/support/memory_use.h"
#include "tests/support/rank_job.h"
#include "tests/support/soak.h"

namespace hv::tests {
namespace {

using base::Clock;
using ::testing::Each;
using ::testing::HasSubstr;

// A check inside a rank: its text comes back with the rank's output.
#define CHECK_RANK(condition)                                               \
  do {                                                                      \
    if (!(condition)) {                                                     \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                             \
    }                                                                       \
  } while (false)

template <class Call>
std::string error_text(ErrorCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == code) return error.what();
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("'%s' does not contain '%s'\n", text.c_str(), part.c_str());
  return false;
}

template <class T>
bool sums_are_exact(World& world, std::int64_t count, double scale) {
  const int n = world.size();
  std::vector<T> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<T>(i % 5 + world.rank());
  world.allreduce("sum", view(data), {.op = ReduceOp::kSum, .prescale = scale}).wait();
  for (std::int64_t i = 0; i < count; ++i) {
    if (data[i] != static_cast<T>(scale * static_cast<double>(i % 5 * n + n * (n - 1) / 2))) {
      std::printf("element %ld of %ld is wrong\n", static_cast<long>(i), static_cast<long>(count));
      return false;
    }
  }
  return true;
}

HV_RANK_PROGRAM(collectives) {
  World world = join_job();
  const int n = world.size();
  for (std::int64_t count : {0, 1, 7, 4095, 4096, 4097, 1 << 20}) {
    CHECK_RANK(sums_are_exact<float>(world, count, 1));
    CHECK_RANK(sums_are_exact<double>(world, count, 0.5));
    CHECK_RANK(sums_are_exact<std::int8_t>(world, count, 1));
    CHECK_RANK(sums_are_exact<std::uint64_t>(world, count, 1));
    std::vector<std::int32_t> moved(static_cast<std::size_t>(count), world.rank());
    world.broadcast("cast", view(moved), n / 2).wait();
    CHECK_RANK(std::all_of(moved.begin(), moved.end(), [&](int v) { return v == n / 2; }));
    const std::int64_t mine = world.rank() % 2 ? 0 : count + world.rank();
    std::vector<std::int16_t> rows(static_cast<std::size_t>(mine),
                                   static_cast<std::int16_t>(world.rank()));
    auto gather = world.allgather("gather", view(rows));
    gather.wait();
    const auto* value = static_cast<const std::int16_t*>(gather.output().data);
    for (int rank = 0; rank < n; ++rank) {
      const std::int64_t theirs = rank % 2 ? 0 : count + rank;
      CHECK_RANK(gather.rows().at(rank) == theirs);
      for (std::int64_t i = 0; i < theirs; ++i) CHECK_RANK(*value++ == rank);
    }
    world.barrier().wait();
  }
  return 0;
}

HV_RANK_PROGRAM(random_order) {
  World world = join_job();
  constexpr int kTensors = 500, kThreads = 3;
  const int n = world.size();
  const int steps = soak() ? 50 : 3;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::vector<int> order;
        for (int i = t; i < kTensors; i += kThreads) order.push_back(i);
        std::mt19937 random(static_cast<unsigned>(world.rank() * 100 + t * 10 + step));
        std::shuffle(order.begin(), order.end(), random);
        std::map<int, std::pair<std::vector<float>, Handle>> pending;
        for (int i : order) {
          auto& [data, handle] = pending[i];
          data.assign(static_cast<std::size_t>(i * 7 % 300 + 1),
                      static_cast<float>(i + world.rank()));
          handle = world.allreduce("t" + std::to_string(i), view(data), {.op = ReduceOp::kSum});
        }
        for (auto& [i, one] : pending) {
          one.second.wait();
          for (float value : one.first)
            wrong += value != static_cast<float>(i * n + n * (n - 1) / 2);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK_RANK(wrong == 0);
  }
  return 0;
}

HV_RANK_PROGRAM(raw_communicators) {
  World world = join_job();
  const int n = world.size();
  Communicator first = world.communicator(), second = world.communicator();
  for (std::size_t count : {0, 1, 7, 4097, 1 << 20}) {
    std::vector<float> named(count, 1);
    Handle pending = world.allreduce("named", view(named), {.op = ReduceOp::kSum});
    std::vector<std::int64_t> data(count, world.rank());
    first.allreduce(view(data));
    CHECK_RANK(std::all_of(data.begin(), data.end(), [&](auto v) { return v == n * (n - 1) / 2; }));
    std::vector<std::int64_t> moved(count, world.rank());
    second.broadcast(view(moved), n - 1);
    CHECK_RANK(std::all_of(moved.begin(), moved.end(), [&](auto v) { return v == n - 1; }));
    first.barrier();
    pending.wait();
    CHECK_RANK(std::all_of(named.begin(), named.end(), [&](float v) { return v == n; }));
  }
  return 0;
}

// A rank that waits long sleeps; it must wake as soon as the last rank has done its part, and not
// with the next event that comes along.
HV_RANK_PROGRAM(late_arrivals) {
  World world = join_job();
  std::vector<std::int64_t> delays;
  for (int i = 0; i < 11; ++i) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::vector<std::int64_t> one{1};
    Handle handle = world.allreduce("x", view(one));
    handle.wait();
    const auto mine = Clock::now().time_since_epoch().count();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::vector<std::int64_t> theirs{handle.done_ns()};
    world.broadcast("done", view(theirs), 1).wait();
    delays.push_back(mine - theirs[0]);
  }
  std::nth_element(delays.begin(), delays.begin() + 5, delays.end());
  std::printf("median delay %ld us\n", static_cast<long>(delays[5] / 1000));
  CHECK_RANK(delays[5] < 15'000'000);
  return 0;
}

HV_RANK_PROGRAM(fork_children) {
  World world = join_job();
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      { World copy = std::move(world); }
      _exit(0);
    }
    int status = -1;
    CHECK_RANK(::waitpid(child, &status, 0) == child && status == 0);
    CHECK_RANK(sums_are_exact<float>(world, 1000, 1));
  }
  return 0;
}

HV_RANK_PROGRAM(one_never_comes) {
  if (std::string(std::getenv("HVRUN_RANK")) == "1") {
    std::this_thread::sleep_for(std::chrono::seconds(4));
    return 0;
  }
  const auto start = Clock::now();
  const std::string text = error_text(ErrorCode::kTimeout, [&] { join_job(); });
  CHECK_RANK(contains(text, "missing: 1 ("));
  CHECK_RANK(Clock::now() - start < std::chrono::seconds(4));
  return 0;
}

HV_RANK_PROGRAM(exception_with_work_pending) {
  if (std::string(std::getenv("HVRUN_RANK")) == "0") {
    World world = join_job();
    std::vector<float> one{1}, more{1};
    world.allreduce("a", view(one), {.op = ReduceOp::kMax}).wait();
    const std::string text =
        error_text(ErrorCode::kPeerLost, [&] { world.allreduce("b", view(more)).wait(); });
    CHECK_RANK(contains(text, "rank 1 on h"));
    return 0;
  }
  std::vector<float> one{1}, more{1};
  try {
    World world = join_job();
    world.allreduce("a", view(one), {.op = ReduceOp::kMax}).wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // rank 0 ends "a" in peace
    world.allreduce("only here", view(more));
    throw std::runtime_error("a fault of the program");
  } catch (const std::runtime_error&) {
  }
  return 0;
}

HV_RANK_PROGRAM(mismatches) {
  World world = join_job();
  const bool last = world.rank() == world.size() - 1;
  const std::string last_rank = "on rank " + std::to_string(world.size() - 1);
  std::vector<float> data(4);
  std::vector<double> doubles(4);
  const auto differs = [&](auto call, const char* field) {
    const auto start = Clock::now();
    const std::string text = error_text(ErrorCode::kMismatch, [&] { call().wait(); });
    return contains(text, "'w'") && contains(text, field) && contains(text, last_rank) &&
           Clock::now() - start < std::chrono::seconds(1);
  };
  world.barrier().wait();
  CHECK_RANK(
      differs([&] { return world.allreduce("w", view(data.data(), {last ? 2 : 4})); }, "shape"));
  CHECK_RANK(
      differs([&] { return world.allreduce("w", last ? view(doubles) : view(data)); }, "type"));
  CHECK_RANK(differs(
      [&] {
        return world.allreduce("w", view(data), {.op = last ? ReduceOp::kMax : ReduceOp::kSum});
      },
      "reduction"));
  CHECK_RANK(
      differs([&] { return world.allreduce("w", view(data), {.prescale = last ? 2.0 : 1.0}); },
              "prescale"));
  CHECK_RANK(
      differs([&] { return world.allreduce("w", view(data), {.postscale = last ? 2.0 : 1.0}); },
              "postscale"));
  CHECK_RANK(differs([&] { return world.broadcast("w", view(data), last ? 1 : 0); }, "root"));
  CHECK_RANK(differs(
      [&] { return last ? world.allgather("w", view(data)) : world.allreduce("w", view(data)); },
      "operation"));
  CHECK_RANK(differs(
      [&] {
        return world.allgather("w", view(data.data(), last ? Shape{2, 2} : Shape{4}));
      },
      "shape"));
  CHECK_RANK(sums_are_exact<float>(world, 100, 1));
  return 0;
}

HV_RANK_PROGRAM(work_until_failure) {
  World world = join_job();
  std::vector<float> data(1 << 20, 1);
  const std::string text = error_text(ErrorCode::kPeerLost, [&] {
    for (int step = 0;; ++step) {
      auto large = world.allreduce("large", view(data), {.op = ReduceOp::kMax});
      std::vector<float> one{1};
      world.allreduce("small", view(one)).wait();
      large.wait();
      if (step == 20) std::printf("working\n");
    }
  });
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
  std::printf("ended at %lld: %s\n", static_cast<long long>(now.count()), text.c_str());
  const std::string later = error_text(ErrorCode::kPeerLost, [&] { world.barrier(); });
  CHECK_RANK(later == text);
  return 0;
}

HV_RANK_PROGRAM(leave_early) {
  World world = join_job();
  world.barrier().wait();
  if (world.rank() == 1) return 0;
  std::vector<float> one{1};
  const auto start = Clock::now();
  const std::string text =
      error_text(ErrorCode::kPeerLost, [&] { world.allreduce("more", view(one)).wait(); });
  CHECK_RANK(contains(text, "rank 1 on h"));
  CHECK_RANK(contains(text, "shut down"));
  CHECK_RANK(Clock::now() - start < std::chrono::seconds(2));
  return 0;
}

HV_RANK_PROGRAM(quit_rudely) {
  World world = join_job();
  if (world.rank() == 1) {
    world.barrier().wait();  // nobody is on the way into the job any more
    _exit(0);
  }
  const std::string text = error_text(ErrorCode::kPeerLost, [&] {
    world.barrier().wait();
    std::vector<float> one{1};
    world.allreduce("more", view(one)).wait();
  });
  CHECK_RANK(contains(text, "rank 1"));
  return 0;
}

int entries(const char* folder) {
  int count = 0;
  DIR* dir = ::opendir(folder);
  while (::readdir(dir)) ++count;
  ::closedir(dir);
  return count;
}

HV_RANK_PROGRAM(cycles) {
  int fds = 0, threads = 0;
  std::size_t memory = 0;
  for (int cycle = 0; cycle < 50; ++cycle) {
    {
      World world = join_job();
      CHECK_RANK(sums_are_exact<float>(world, 5000, 1));
      if (cycle % 2) world.shutdown();
    }
    if (cycle == 9) {
      fds = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
      memory = memory_in_use_kib();
    }
  }
  CHECK_RANK(entries("/proc/self/fd") <= fds);
  CHECK_RANK(entries("/proc/self/task") <= threads);
  std::printf("%zu KiB after 10 cycles, %zu KiB after 50\n", memory, memory_in_use_kib());
  CHECK_RANK(memory_in_use_kib() < memory + 4096);
  return 0;
}

struct Activity {
  long switches = 0;
  long ticks = 0;
  std::map<std::string, long> of_thread;
};
std::set<std::string> threads_now() {
  std::set<std::string> ids;
  DIR* dir = ::opendir("/proc/self/task");
  while (dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') ids.insert(entry->d_name);
  }
  ::closedir(dir);
  return ids;
}
Activity activity(const std::set<std::string>& others) {  // of all threads but those
  Activity sum;
  for (const auto& id : threads_now()) {
    if (others.contains(id)) continue;
    std::ifstream status("/proc/self/task/" + id + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("voluntary_ctxt_switches:")) continue;
      std::string name;
      std::getline(std::ifstream("/proc/self/task/" + id + "/comm"), name);
      const long switches = std::stol(line.substr(24));
      sum.of_thread[name + " " + id] = switches;
      sum.switches += switches;
    }
    std::ifstream stat("/proc/self/task/" + id + "/stat");
    std::string all((std::istreambuf_iterator<char>(stat)), {});
    std::istringstream fields(all.substr(all.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0, system = 0;
    fields >> user >> system;
    sum.ticks += user + system;
  }
  return sum;
}

HV_RANK_PROGRAM(idle) {
  std::thread([] {}).join();            // with the first thread comes the one of a sanitizer
  const auto not_ours = threads_now();  // that, and the caller
  World world = join_job();
  for (int i = 0; i < 100; ++i) CHECK_RANK(sums_are_exact<float>(world, 1000, 1));
  // Three quiet seconds, soon: on a busy machine yielding takes a while, and so do other ranks,
  // whose barrier is heard here.
  Activity before, after = activity(not_ours);
  for (int window = 0; window < 10; ++window) {
    before = after;
    std::this_thread::sleep_for(std::chrono::seconds(3));
    after = activity(not_ours);
    std::printf("%ld wake-ups and %ld ticks in 3 s\n", after.switches - before.switches,
                after.ticks - before.ticks);
    if (after.switches == before.switches && after.ticks == before.ticks) break;
  }
  for (const auto& [thread, switches] : after.of_thread) {
    std::printf("  %s: %ld, before %ld\n", thread.c_str(), switches, before.of_thread.at(thread));
  }
  CHECK_RANK(after.switches == before.switches);
  CHECK_RANK(after.ticks == before.ticks);
  world.barrier().wait();
  return 0;
}

std::vector<std::vector<int>> shapes() {
  std::vector<std::vector<int>> all;
  for (int size = 1; size <= 8; ++size) all.push_back({size});
  all.insert(all.end(), {{1, 1, 1}, {2, 2, 2}, {3, 1, 2}, {1, 3}, {4, 4}});
  return all;
}
std::string shape_name(const ::testing::TestParamInfo<std::vector<int>>& hosts) {
  std::string name;
  for (int ranks : hosts.param) name += (name.empty() ? "" : "_") + std::to_string(ranks);
  return name;
}

class WorldProcesses : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  int size() const { return std::accumulate(GetParam().begin(), GetParam().end(), 0); }
};

TEST_P(WorldProcesses, EveryOperationIsExact) {
  RankJob job({"collectives", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(WorldProcesses, RandomOrdersFromThreeThreads) {
  RankJob job({"random_order", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

INSTANTIATE_TEST_SUITE_P(Hosts, WorldProcesses, ::testing::ValuesIn(shapes()), shape_name);

class SeveralProcesses : public WorldProcesses {};

TEST_P(SeveralProcesses, EveryMismatchReachesEveryRank) {
  RankJob job({"mismatches", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, ARankThatLeavesIsNamed) {
  RankJob job({"leave_early", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, EndingWithoutShutdownIsALoss) {
  RankJob job({"quit_rudely", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
  EXPECT_TRUE(job.hears_lost(1));
}

TEST_P(SeveralProcesses, RawCommunicatorsBesideNamedOperations) {
  RankJob job({"raw_communicators", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, SleepersWakeForTheLastRank) {
  RankJob job({"late_arrivals", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
  for (int rank = 0; rank < size(); ++rank) std::printf("%s", job.output(rank).c_str());
}

TEST_P(SeveralProcesses, AForkedChildTakesNothingWithIt) {
  RankJob job({"fork_children", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, AnAbsenteeIsNamedWhenTheTimeIsUp) {
  RankJob job({"one_never_comes", GetParam(), {"HVRUN_START_TIMEOUT=1"}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, AKilledRankIsNamedToAllWithinTwoSeconds) {
  for (int victim : {0, size() - 1}) {
    RankJob job({"work_until_failure", GetParam(), {}});
    job.wait_for_output(victim, "working");
    const auto killed =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    job.signal(victim, SIGKILL);
    EXPECT_EQ(job.wait(victim), 128 + SIGKILL);
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

TEST_P(SeveralProcesses, FiftyWorldsLeaveNothingBehind) {
  RankJob job({"cycles", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

TEST_P(SeveralProcesses, IdleRanksNeverWake) {
  RankJob job({"idle", GetParam(), {}});
  EXPECT_THAT(job.wait_all(), Each(0));
}

INSTANTIATE_TEST_SUITE_P(Hosts, SeveralProcesses,
                         ::testing::Values(std::vector{2}, std::vector{4}, std::vector{1, 1},
                                           std::vector{2, 2, 1}),
                         shape_name);

TEST(WorldOfTwo, AnExceptionWithWorkPendingEndsTheJobAndDoesNotHang) {
  for (auto hosts : {std::vector{2}, std::vector{1, 1}}) {
    RankJob job({"exception_with_work_pending", hosts, {}});
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
