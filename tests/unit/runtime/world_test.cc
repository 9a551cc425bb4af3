// Worlds over the in-process data plane: threads as ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>

#include "hv/hv.h"
#include "tests/support/error_of.h"
#include "tests/support/inproc_world.h"

namespace hv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::error_of;
using tests::InprocOptions;
using tests::run_ranks;

class WorldTest : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  InprocOptions options() const { return {GetParam().first, GetParam().second, {}}; }
};

TEST_P(WorldTest, KnowsItsPlace) {
  const auto [size, per_host] = GetParam();
  run_ranks(options(), [&, n = size, per = per_host](World& world) {
    EXPECT_EQ(world.size(), n);
    EXPECT_EQ(world.local_rank(), world.rank() % per);
    EXPECT_EQ(world.host_count(), (n + per - 1) / per);
    EXPECT_EQ(world.cross_rank(), world.rank() / per);
    EXPECT_EQ(world.host(), "h" + std::to_string(world.rank() / per));
  });
}

TEST_P(WorldTest, EveryOperationIsExact) {
  run_ranks(options(), [](World& world) {
    const int n = world.size();
    for (std::int64_t count : {0, 1, 7, 4095, 4097}) {
      std::vector<float> data(count);
      for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 13 + world.rank());
      world.allreduce("sum", view(data), {.op = ReduceOp::kSum}).wait();
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(data[i], static_cast<float>(i % 13 * n + n * (n - 1) / 2)) << i;
      }
      std::vector<std::int64_t> moved(count, world.rank());
      world.broadcast("cast", view(moved), n - 1).wait();
      ASSERT_EQ(moved, std::vector<std::int64_t>(count, n - 1));

      std::vector<std::int32_t> rows(static_cast<std::size_t>(world.rank()) * 3, world.rank());
      auto gather = world.allgather("gather", view(rows.data(), {world.rank(), 3}));
      gather.wait();
      const TensorView all = gather.output();
      ASSERT_THAT(all.shape, ElementsAre(n * (n - 1) / 2, 3));
      const auto* value = static_cast<const std::int32_t*>(all.data);
      for (int rank = 0; rank < n; ++rank) {
        ASSERT_EQ(gather.rows().at(rank), rank);
        for (int i = 0; i < rank * 3; ++i) ASSERT_EQ(*value++, rank);
      }
    }
    world.barrier().wait();
  });
}

TEST_P(WorldTest, RandomOrdersFromSeveralThreads) {
  run_ranks(options(), [](World& world) {
    constexpr int kTensors = 120, kThreads = 3;
    for (int step = 0; step < 3; ++step) {
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          std::vector<int> order;
          for (int i = t; i < kTensors; i += kThreads) order.push_back(i);
          std::mt19937 random(static_cast<unsigned>(world.rank() * 100 + t * 10 + step));
          std::shuffle(order.begin(), order.end(), random);
          std::map<int, std::pair<std::vector<double>, Handle>> pending;
          for (int i : order) {
            auto& [data, handle] = pending[i];
            data.assign(i % 50 + 1, i + world.rank());
            handle = world.allreduce("t" + std::to_string(i), view(data), {.op = ReduceOp::kSum});
          }
          const int n = world.size();
          for (auto& [i, one] : pending) {
            one.second.wait();
            for (double value : one.first) ASSERT_EQ(value, i * n + n * (n - 1) / 2);
          }
        });
      }
      for (auto& thread : threads) thread.join();
    }
  });
}

TEST_P(WorldTest, AMismatchReachesEveryRankAndTheWorldGoesOn) {
  const int size = GetParam().first;
  if (size < 2) return;  // one rank can not disagree
  run_ranks(options(), [](World& world) {
    const int n = world.size();
    const bool odd = world.rank() == n - 1;
    std::vector<float> a(4), b(5);
    const Error shape = error_of([&] { world.allreduce("w", odd ? view(b) : view(a)).wait(); });
    EXPECT_EQ(shape.code(), ErrorCode::kMismatch);
    EXPECT_THAT(shape.what(), HasSubstr("'w'"));
    EXPECT_THAT(shape.what(), HasSubstr("[5] on rank " + std::to_string(n - 1)));
    const Error root = error_of([&] { world.broadcast("w", view(a), odd ? 1 : 0).wait(); });
    EXPECT_THAT(root.what(), HasSubstr("root"));
    const Error kind = error_of(
        [&] { (odd ? world.allgather("w", view(a)) : world.allreduce("w", view(a))).wait(); });
    EXPECT_THAT(kind.what(), HasSubstr("operation"));
    std::vector<float> one{1};
    world.allreduce("w", view(one), {.op = ReduceOp::kSum}).wait();
    EXPECT_EQ(one[0], static_cast<float>(n));
  });
}

TEST_P(WorldTest, ARankThatLeavesIsNamedToThoseWhoWait) {
  const int size = GetParam().first;
  if (size < 2) return;  // nobody is left to wait
  run_ranks(options(), [&](World& world) {
    const int leaver = size / 2;
    std::vector<float> data{1};
    world.allreduce("first", view(data)).wait();
    if (world.rank() == leaver) return;  // shuts down
    const Error error = error_of([&] { world.allreduce("more", view(data)).wait(); });
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(leaver) + " on h"));
    EXPECT_THAT(error.what(), HasSubstr("has shut down"));
  });
}

TEST_P(WorldTest, TheFirstCauseEndsEverythingPendingAndLater) {
  auto made = tests::make_inproc_worlds(options());
  std::vector<float> data{1};
  Handle pending;
  if (GetParam().first > 1) pending = made.worlds[0].allreduce("never", view(data));
  made.stores.back()->report_fault(
      {base::Code::kPeerLost, "killed by signal 9", "rank 1 on h0", 0});
  for (World& world : made.worlds) {
    // The notice comes on a thread of the store's own.
    Error error(ErrorCode::kInternal, "");
    for (int i = 0; error.code() == ErrorCode::kInternal; ++i) {
      ASSERT_LT(i, 10000);
      try {
        world.barrier("b" + std::to_string(i));
        std::this_thread::yield();
      } catch (const Error& caught) {
        error = caught;
      }
    }
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("killed by signal 9"));
  }
  if (GetParam().first > 1) {
    EXPECT_EQ(error_of([&] { pending.wait(); }).code(), ErrorCode::kPeerLost);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorldTest,
                         ::testing::Values(std::pair(1, 64), std::pair(2, 64), std::pair(4, 64),
                                           std::pair(3, 1), std::pair(6, 2), std::pair(5, 2)),
                         [](const auto& sizes) {
                           return std::to_string(sizes.param.first) + "ranks" +
                                  std::to_string(sizes.param.second) + "perhost";
                         });

TEST(World, WhatIsWrongAtTheCallIsAnErrorAtTheCall) {
  run_ranks({1, 1, {}}, [](World& world) {
    std::vector<float> data(4);
    float* none = nullptr;
    std::vector<std::uint8_t> bytes(4);
    TensorView fp8{bytes.data(), DType::kFloat8E4M3, {4}, -1};
    const auto code = [](auto call) { return error_of(call).code(); };
    EXPECT_EQ(code([&] { world.broadcast("a", view(data), 1); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.broadcast("a", view(data), -1); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allreduce("", view(data)); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allreduce("a", view(none, {4})); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allreduce("a", view(data.data(), {-1})); }),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allreduce("a", fp8); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allreduce("a", view(data), view(data.data(), {2})); }),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] {
                std::vector<std::int32_t> whole(4);
                world.allreduce("a", view(whole), {.op = ReduceOp::kAdasum});
              }),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { world.allgather("a", view(data.data(), {})); }),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code([&] { Handle().wait(); }), ErrorCode::kInvalidArgument);
  });
}

TEST(World, ANameMayBePendingOnce) {
  auto made = tests::make_inproc_worlds({2, 2, {}});
  std::vector<float> a{1}, b{2};
  auto first = made.worlds[0].allreduce("x", view(a), {.op = ReduceOp::kSum});
  const Error error = error_of([&] { made.worlds[0].allreduce("x", view(b)); });
  EXPECT_EQ(error.code(), ErrorCode::kDuplicateName);
  EXPECT_THAT(error.what(), HasSubstr("'x'"));
  EXPECT_FALSE(first.wait_for(std::chrono::milliseconds(1)));
  made.worlds[1].allreduce("x", view(b), {.op = ReduceOp::kSum});  // its handle is dropped
  first.wait();
  EXPECT_EQ(a[0], 3);
  EXPECT_GE(first.done_ns(), first.submitted_ns());
  auto again = made.worlds[0].allreduce("x", view(a));
  for (bool free = false; !free;) {  // rank 1 may still be at the first one
    try {
      made.worlds[1].allreduce("x", view(b)).wait();
      free = true;
    } catch (const Error& busy) {
      ASSERT_EQ(busy.code(), ErrorCode::kDuplicateName);
      std::this_thread::yield();
    }
  }
  again.wait();
}

TEST(World, AfterShutdownEveryCallFailsAndShutdownMayBeRepeated) {
  run_ranks({2, 2, {}}, [](World& world) {
    World copy = world;
    copy.shutdown();
    world.shutdown();
    std::vector<float> data{1};
    EXPECT_EQ(error_of([&] { copy.allreduce("a", view(data)); }).code(), ErrorCode::kShutdown);
  });
}

TEST(World, LongNamesOverFullRingsWithoutCacheOnlyCostTime) {
  InprocOptions options{4, 2, {}};
  options.knobs.cache_names = 0;
  options.knobs.fusion_bytes = 0;
  run_ranks(options, [](World& world) {
    std::vector<std::vector<float>> data(300, std::vector<float>{1});
    std::vector<Handle> handles;
    const std::string filler(2000, 'n');  // 600 KB of names
    for (std::size_t i = 0; i < data.size(); ++i) {
      handles.push_back(
          world.allreduce(filler + std::to_string(i), view(data[i]), {.op = ReduceOp::kSum}));
    }
    for (auto& handle : handles) handle.wait();
    for (auto& one : data) ASSERT_EQ(one[0], 4);
  });
}

}  // namespace
}  // namespace hv
