// How work on (stand-in) GPUs fails: what is missing, what breaks, what hangs. Each within its
// bound and with its cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runtime/backend/gpu.h"
#include "tests/gpu/device_tensor.h"
#include "tests/support/error_of.h"

namespace hv {
namespace {

using namespace std::chrono_literals;
using base::Clock;
using test::DeviceTensor;
using test::Faults;
using test::gpu_knobs;
using test::gpu_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using tests::error_of;
using tests::make_inproc_worlds;
using tests::run_ranks;

constexpr auto kBound = 60s;  // generous: the machine may be busy

// ---- what is missing -------------------------------------------------------------------------

std::string refusal(const runtime::Knobs& knobs) {
  auto options = gpu_ranks({1});
  options.knobs = knobs;
  std::string text;
  run_ranks(options, [&](World& world) {
    DeviceTensor tensor(0, DType::kFloat32, {4});
    const Error error = error_of([&] { world.allreduce("grad", tensor.view()); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    text = error.what();
    std::vector<float> host(4, 2);
    world.allreduce("grad", view(host)).wait();  // host tensors go on
    const Error again = error_of([&] { world.allreduce("grad", tensor.view()); });
    EXPECT_EQ(again.what(), text);
    EXPECT_EQ(error_of([&] { world.device(); }).code(), ErrorCode::kUnavailable);
  });
  return text;
}

TEST(GpuMissing, ThePluginAndWhereItWasLookedFor) {
  auto knobs = gpu_knobs();
  knobs.gpu_plugin = "/nowhere/libhv_nccl.so";
  EXPECT_THAT(refusal(knobs), AllOf(HasSubstr("allreduce 'grad': the GPU plug-in is missing"),
                                    HasSubstr("/nowhere/libhv_nccl.so"), HasSubstr("HV_CUDA=ON")));
}

TEST(GpuMissing, ThePluginOfAnotherBuild) {
  auto knobs = gpu_knobs();
  knobs.gpu_plugin = HV_STANDIN_CUDA;  // a library, but none of ours
  EXPECT_THAT(refusal(knobs), HasSubstr("is not of this build of libhv"));
}

TEST(GpuMissing, TheDriverAndWhereItWasLookedFor) {
  auto knobs = gpu_knobs();
  knobs.cuda_library = "/nowhere/libcuda.so.1";
  EXPECT_THAT(refusal(knobs), AllOf(HasSubstr("the CUDA driver is missing. Tried: "),
                                    HasSubstr("/nowhere/libcuda.so.1")));
  knobs.cuda_library = HV_STANDIN_PLUGIN;
  EXPECT_THAT(refusal(knobs), HasSubstr("it lacks cuInit"));
}

TEST(GpuMissing, TheDevice) {
  {
    const Faults faults("no-device");
    EXPECT_THAT(refusal(gpu_knobs()),
                AllOf(HasSubstr("there is no device: cuInit"), HasSubstr("CUDA_ERROR_NO_DEVICE"),
                      HasSubstr("CUDA_VISIBLE_DEVICES")));
  }
  const Faults faults("devices=2");
  run_ranks(gpu_ranks({3}), [](World& world) {
    if (world.rank() < 2) return;
    DeviceTensor tensor(0, DType::kFloat32, {4});
    EXPECT_THAT(error_of([&] { world.allreduce("grad", tensor.view()); }).what(),
                AllOf(HasSubstr("no device for this rank: its local rank is 2, and 2 are visible"),
                      HasSubstr("at most one rank per device")));
  });
}

TEST(GpuMissing, NcclAndWhereItWasLookedFor) {
  auto knobs = gpu_knobs();
  knobs.nccl_library = "/nowhere/libnccl.so.2";
  EXPECT_THAT(refusal(knobs),
              AllOf(HasSubstr("NCCL is missing. Tried: "), HasSubstr("/nowhere/libnccl.so.2"),
                    HasSubstr("HVRUN_NCCL_LIBRARY")));
  knobs.nccl_library = HV_STANDIN_CUDA;
  EXPECT_THAT(refusal(knobs), HasSubstr("is not NCCL 2.18 or newer: it lacks ncclGetVersion"));
  const Faults faults("version=21703");
  EXPECT_THAT(refusal(gpu_knobs()), HasSubstr("too old; 2.18 is the oldest that works"));
}

// ---- what an NCCL has or has not -------------------------------------------------------------

void sum_once(World& world, const char* name = "t") {
  DeviceTensor tensor(world.local_rank(), DType::kInt32, {1000});
  for (auto& value : tensor.values<std::int32_t>()) value = 1;
  world.allreduce(name, tensor.view(), {.op = ReduceOp::kSum}).wait();
  EXPECT_THAT(tensor.values<std::int32_t>(), ::testing::Each(world.size()));
}

TEST(GpuVersions, WhatCameAfter218IsUsedWhereItIsThere) {
  auto options = gpu_ranks({4});
  options.knobs.nccl_ranks_per_id = 2;
  const long registered = standin_count("register"), scalable = standin_count("scalable");
  run_ranks(options, [](World& world) { sum_once(world); });
  EXPECT_EQ(standin_count("register") - registered, 4);
  EXPECT_EQ(standin_count("scalable") - scalable, 4 * 2);  // two ids on each rank
}

TEST(GpuVersions, And218IsEnough) {
  auto options = gpu_ranks({4});
  options.knobs.nccl_ranks_per_id = 2;
  options.knobs.nccl_library = HV_STANDIN_NCCL_2_18;
  const long registered = standin_count("register"), scalable = standin_count("scalable");
  run_ranks(options, [](World& world) { sum_once(world); });
  EXPECT_EQ(standin_count("register") - registered, 0);
  EXPECT_EQ(standin_count("scalable") - scalable, 0);
}

TEST(GpuVersions, GroupsThatStayInProgressAreWaitedFor) {
  const Faults faults("group-slow=30 slow=5");
  run_ranks(gpu_ranks({2}), [](World& world) {
    for (int i = 0; i < 3; ++i) sum_once(world);
  });
}

// ---- what breaks -----------------------------------------------------------------------------

// Every rank sums once and then again with the fault; the second must fail everywhere.
void expect_failure(const tests::InprocOptions& options, const char* faults,
                    const ::testing::Matcher<std::string>& text,
                    const std::function<void(tests::InprocWorlds&)>& meanwhile = {}) {
  auto made = make_inproc_worlds(options);
  std::vector<std::thread> threads;
  std::atomic<int> warm{0};
  for (World& world : made.worlds) {
    threads.emplace_back([&] {
      sum_once(world);
      ++warm;
      while (warm < options.size) std::this_thread::sleep_for(1ms);
      static std::mutex once;
      {
        std::lock_guard lock(once);
        standin_set_faults(faults);
      }
      const auto began = Clock::now();
      DeviceTensor tensor(world.local_rank(), DType::kInt32, {1000});
      const Error error = error_of([&] { world.allreduce("t", tensor.view()).wait(); });
      EXPECT_THAT(std::string(error.what()), text);
      EXPECT_LT(Clock::now() - began, kBound);
    });
  }
  if (meanwhile) {
    while (warm < options.size) std::this_thread::sleep_for(1ms);
    meanwhile(made);
  }
  for (auto& thread : threads) thread.join();
  standin_set_faults("");
  made.worlds.clear();
}

TEST(GpuFailures, ALostPeerEndsTheJobAndAborts) {
  const long aborts = standin_count("abort");
  // Which rank hears it first is open; the others hear of it through the job, or time out.
  auto options = gpu_ranks({2});
  options.knobs.gpu_timeout_s = 15;
  expect_failure(options, "async-error hang",
                 HasSubstr("remote process exited or there was a network error"));
  EXPECT_EQ(standin_count("abort") - aborts, 2);
}

TEST(GpuFailures, AHangEndsWithTheJobsFirstCause) {
  const long aborts = standin_count("abort");
  expect_failure(gpu_ranks({3}), "hang", HasSubstr("rank 7 has died"),
                 [](tests::InprocWorlds& made) {
                   std::this_thread::sleep_for(100ms);
                   made.stores[0]->report_fault({base::Code::kPeerLost, "rank 7 has died", {}, 0});
                 });
  EXPECT_EQ(standin_count("abort") - aborts, 3);
}

TEST(GpuFailures, AHangEndsAtItsDeadline) {
  auto options = gpu_ranks({2});
  options.knobs.gpu_timeout_s = 3;  // long enough for what goes well before
  expect_failure(options, "hang",
                 AllOf(HasSubstr("allreduce 't': not done on GPU"), HasSubstr("HVRUN_GPU_TIMEOUT"),
                       HasSubstr("a peer is stuck")));
}

TEST(GpuFailures, AnInitThatFailsSaysWhichCall) {
  const Faults faults("init-fails");
  run_ranks(gpu_ranks({2}), [](World& world) {
    DeviceTensor tensor(world.local_rank(), DType::kInt32, {10});
    EXPECT_THAT(error_of([&] { world.allreduce("t", tensor.view()).wait(); }).what(),
                AllOf(HasSubstr("the communicator of 2 GPUs"),
                      HasSubstr("ncclCommInitRankConfig says 'unhandled system error'")));
  });
}

TEST(GpuFailures, AnInitThatHangsNamesWhoIsNotUp) {
  const Faults faults("init-hangs@1");
  auto options = gpu_ranks({2});
  options.knobs.start_timeout_s = 4;
  auto made = make_inproc_worlds(options);
  std::vector<std::thread> threads;
  for (World& world : made.worlds) {
    threads.emplace_back([&world] {
      DeviceTensor tensor(world.local_rank(), DType::kInt32, {10});
      EXPECT_THAT(error_of([&] { world.allreduce("t", tensor.view()).wait(); }).what(),
                  AllOf(HasSubstr("the communicator of 2 GPUs has not come up within 4 s"),
                        HasSubstr("Not up: rank 1 on h0.")));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(GpuFailures, TwoRanksOnOneDeviceAreFoundBeforeNcclIs) {
  auto options = gpu_ranks({2});
  options.devices = {0, 0};
  const long inits = standin_count("init");
  run_ranks(options, [](World& world) {
    DeviceTensor tensor(0, DType::kInt32, {10});
    const Error error = error_of([&] { world.allreduce("t", tensor.view()).wait(); });
    EXPECT_THAT(error.what(), AllOf(HasSubstr("two ranks use the same GPU"),
                                    HasSubstr("rank 0 on h0 (local rank 0, device 0"),
                                    HasSubstr("rank 1 on h0 (local rank 1, device 0")));
  });
  EXPECT_EQ(standin_count("init"), inits);
}

// As with a mask for each rank, but here it is the same one.
TEST(GpuFailures, ARankThatSeesOneDeviceTakesItAndTwoThatSeeTheSameAreFound) {
  const Faults faults("devices=1");
  run_ranks(gpu_ranks({2}), [](World& world) {
    EXPECT_EQ(world.device(), 0);
    DeviceTensor tensor(0, DType::kInt32, {10});
    EXPECT_THAT(error_of([&] { world.allreduce("t", tensor.view()).wait(); }).what(),
                HasSubstr("two ranks use the same GPU"));
  });
}

// ---- an abort that hangs, and a rank that never comes: without a world around ----------------

runtime::GpuOptions alone(int rank, int size, const std::shared_ptr<rendezvous::Store>& store) {
  const auto knobs = gpu_knobs();
  runtime::GpuOptions options;
  options.driver = knobs.cuda_library;
  options.nccl = knobs.nccl_library;
  options.rank = options.local_rank = rank;
  options.scope = "gpu";
  options.store = store;
  for (int i = 0; i < size; ++i) options.who.push_back("rank " + std::to_string(i) + " on h");
  for (int i = 0; i < size; ++i) options.hosts.emplace_back("h");
  options.buffer_bytes = 1 << 20;
  return options;
}

enum class Then { kWait, kAbort };
std::optional<base::Error> run_one(runtime::Gpu& gpu, const DeviceTensor& tensor,
                                   const std::vector<int>& ranks, Then then) {
  runtime::Batch batch;
  batch.ranks = &ranks;
  runtime::Op op;
  op.name = "t";
  op.input = op.output = tensor.view();
  batch.ops.push_back(op);
  std::optional<base::Result<void>> end;
  gpu.backend().start(std::move(batch),
                      [&](base::Result<void> result) { end = std::move(result); });
  if (then == Then::kAbort) {
    gpu.backend().abort({base::Code::kPeerLost, "rank 1 on h was killed", {}, 0});
  }
  const auto until = Clock::now() + kBound;
  while (!end && Clock::now() < until) {
    if (!gpu.backend().progress()) std::this_thread::sleep_for(100us);
  }
  if (!end) return base::Error{base::Code::kInternal, "nothing came"};
  return *end ? std::nullopt : std::optional(end->error());
}

TEST(GpuFailures, AnAbortThatHangsIsToldWithTheFirstCause) {
  std::string stuck;
  auto options = alone(0, 1, nullptr);
  options.abort_limit = 200ms;
  options.stuck = [&](const base::Error& error) { stuck = error.text; };
  auto gpu = runtime::open_gpu(gpu_knobs().gpu_plugin, options);
  ASSERT_TRUE(gpu) << gpu.error().text;
  static auto& tensor = *new DeviceTensor(0, DType::kInt32, {10});  // what hangs writes there later
  const std::vector<int> ranks{0};
  EXPECT_FALSE(run_one(**gpu, tensor, ranks, Then::kWait));
  {
    const Faults faults("hang abort-hangs");
    const auto error = run_one(**gpu, tensor, ranks, Then::kAbort);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, base::Code::kPeerLost);
    EXPECT_THAT(
        error->text,
        HasSubstr("rank 1 on h was killed; then NCCL or the GPU did not let go within 0.20 s"));
    EXPECT_EQ(stuck, error->text);
    EXPECT_TRUE((*gpu)->backend().idle());
  }
  gpu->reset();  // now the abort returns
}

TEST(GpuFailures, ARankThatNeverUsesItsGpuIsNamed) {
  auto hub = rendezvous::make_local_hub(3);
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<rendezvous::Store> store = rendezvous::open_local_store(hub, rank);
      auto options = alone(rank, 3, store);
      options.start_limit = 4s;
      auto gpu = runtime::open_gpu(gpu_knobs().gpu_plugin, options);
      ASSERT_TRUE(gpu) << gpu.error().text;
      DeviceTensor tensor(rank, DType::kInt32, {10});
      const auto error = run_one(**gpu, tensor, {0, 1, 2}, Then::kWait);
      ASSERT_TRUE(error);
      EXPECT_THAT(error->text,
                  AllOf(HasSubstr("no word in time about a GPU from"), HasSubstr("rank 2 on h")));
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace hv
