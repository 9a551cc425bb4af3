// Process sets, as Horovod documents them: static and dynamic, each with collectives of its own.
#include "runtime/process_sets.h"

#include <mutex>
#include <thread>

#include "tests/horovod/behaviour.h"
#include "tests/support/operations_check.h"

namespace hv::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ProcessSets, TheFirstHoldsAllRanksAndStays) {
  run_ranks(on_hosts({3}), [](World& world) {
    ASSERT_THAT(world.process_sets(), SizeIs(1));
    const ProcessSet all = world.process_sets()[0];
    EXPECT_EQ(all.id(), 0);
    EXPECT_THAT(all.ranks(), ElementsAre(0, 1, 2));
    EXPECT_EQ(all.rank(), world.rank());
    EXPECT_EQ(error_of([&] { world.remove_process_set(all); }).code(), ErrorCode::kInvalidArgument);
  });
}

TEST(ProcessSets, AskedForAtInitTheyExistFromTheBeginning) {
  auto options = on_hosts({2, 2});
  options.process_sets = {{3, 0}, {1, 2, 3}};
  run_ranks(options, [](World& world) {
    ASSERT_THAT(world.process_sets(), SizeIs(3));
    ProcessSet outer = world.process_sets()[1], upper = world.process_sets()[2];
    EXPECT_THAT(outer.ranks(), ElementsAre(0, 3));
    EXPECT_EQ(outer.size(), 2);
    EXPECT_EQ(outer.included(), world.rank() % 3 == 0);
    EXPECT_EQ(outer.rank(), world.rank() == 0 ? 0 : world.rank() == 3 ? 1 : -1);
    std::vector<std::int32_t> value{world.rank()};
    if (outer.included()) {
      outer.allreduce("x", view(value), {.op = ReduceOp::kSum}).wait();
      EXPECT_EQ(value[0], 3);
    }
    value[0] = world.rank();
    if (upper.included()) {
      upper.allreduce("x", view(value), {.op = ReduceOp::kSum}).wait();
      EXPECT_EQ(value[0], 6);
    }
    world.barrier().wait();
  });
}

TEST(ProcessSets, TheEnvironmentNamesThemAsListsAndRanges) {
  const auto sets = runtime::parse_process_sets("0-3;4,6,8;1,3-4");
  ASSERT_TRUE(sets);
  EXPECT_THAT(*sets,
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 6, 8), ElementsAre(1, 3, 4)));
  for (const char* wrong : {"0,x", "3-1", "-1", "0;;1", "1-"}) {
    EXPECT_FALSE(runtime::parse_process_sets(wrong)) << wrong;
  }
}

TEST(ProcessSets, RunEveryOperationOfEveryTypeWhereverTheirRanksSit) {
  for (auto hosts : {std::vector{6}, std::vector{3, 2, 1}}) {
    run_ranks(on_hosts(hosts), [](World& world) {
      for (const std::vector<int>& ranks :
           {std::vector{1, 2}, std::vector{0, 4}, std::vector{1, 3, 4, 5}, std::vector{2}}) {
        ProcessSet set = world.add_process_set(ranks);
        if (set.included()) {
          test::OperationsCheck check(set, set.ranks(), set.rank());
          EXPECT_EQ(check.run({0, 5, 1030}), "");
        }
        world.remove_process_set(set);
      }
    });
  }
}

TEST(ProcessSets, CanBeAddedAndRemovedAgain) {
  run_ranks(on_hosts({2, 1}), [](World& world) {
    for (int round = 0; round < 10; ++round) {
      ProcessSet set = world.add_process_set({2, round % 2});
      EXPECT_THAT(world.process_sets(), SizeIs(2));
      std::vector<float> one{1};
      if (set.included()) {
        set.allreduce("x", view(one), {.op = ReduceOp::kSum}).wait();
        EXPECT_EQ(one[0], 2);
      } else {
        const Error error = error_of([&] { set.allreduce("x", view(one)); });
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("not in process set"));
      }
      world.remove_process_set(set);
      EXPECT_THAT(world.process_sets(), SizeIs(1));
      const Error error = error_of([&] { set.barrier(); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(set.included() ? "has been removed" : "removed"));
    }
  });
}

TEST(ProcessSets, ThatCannotBeAreRefused) {
  run_ranks(on_hosts({3}), [](World& world) {
    ProcessSet set = world.add_process_set({0, 1});
    const auto refused = [&](const char* part, const std::vector<int>& ranks) {
      const Error error = error_of([&] { world.add_process_set(ranks); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(part));
    };
    refused("no ranks", {});
    refused("twice", {1, 2, 1});
    refused("not one of 0 to 2", {0, 3});
    refused("already", {1, 0});
    refused("already", {0, 1, 2});
    std::vector<float> data(3);
    if (set.included()) {
      const Error root = error_of([&] { set.broadcast("x", view(data), 2); });
      EXPECT_THAT(root.what(), HasSubstr("root 2 is not a rank of this process set"));
    }
    world.remove_process_set(set);
    EXPECT_EQ(error_of([&] { world.remove_process_set(set); }).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error_of([&] { world.remove_process_set(ProcessSet()); }).code(),
              ErrorCode::kInvalidArgument);
  });
}

TEST(ProcessSets, RanksThatAskForDifferentOnesAllHearOfIt) {
  run_ranks(on_hosts({2, 1}), [](World& world) {
    const Error error = error_of([&] {
      world.add_process_set(world.rank() == 2 ? std::vector{0, 2} : std::vector{0, 1});
    });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("ranks [0, 1] on ranks 0-1, [0, 2] on rank 2"));
    world.add_process_set({0, 2});
  });
}

TEST(ProcessSets, WhatIsPendingInARemovedOneEndsWithAnError) {
  run_ranks(on_hosts({2, 1}), [](World& world) {
    ProcessSet set = world.add_process_set({0, 2});
    std::vector<float> data{1};
    Handle pending;
    if (world.rank() == 2) pending = set.allreduce("never", view(data));
    world.remove_process_set(set);
    if (world.rank() == 2) {
      const Error error = error_of([&] { pending.wait(); });
      EXPECT_EQ(error.code(), ErrorCode::kAborted);
      EXPECT_THAT(error.what(), HasSubstr("'never' was pending in process set 1"));
    }
  });
}

TEST(ProcessSets, OneWaitsForNoOther) {
  run_ranks(on_hosts({2, 2}), [](World& world) {
    ProcessSet slow = world.add_process_set({0, 1, 2}), fast = world.add_process_set({0, 3});
    std::vector<float> large(1 << 20, 1), small{1};
    Handle stuck;
    if (world.rank() < 2) stuck = slow.allreduce("x", view(large), {.op = ReduceOp::kSum});
    for (int i = 0; i < 200 && fast.included(); ++i) {
      fast.allreduce("x", view(small), {.op = ReduceOp::kMax}).wait();
    }
    EXPECT_FALSE(world.rank() < 2 && stuck.done());
    world.barrier().wait();
    if (world.rank() == 2) stuck = slow.allreduce("x", view(large), {.op = ReduceOp::kSum});
    if (slow.included()) {
      stuck.wait();
      EXPECT_EQ(large[12345], 3);
    }
    world.barrier().wait();  // who leaves the world ends all of its sets
  });
}

TEST(ProcessSets, TwentyFourAtWorkAtOnceEachInItsOwnThread) {
  for (auto hosts : {std::vector{6}, std::vector{3, 2, 1}}) {
    run_ranks(on_hosts(hosts), [](World& world) {
      std::vector<ProcessSet> sets;
      for (int bits = 1; sets.size() < 24; ++bits) {
        std::vector<int> ranks;
        for (int rank = 0; rank < 6; ++rank) {
          if ((bits * 5 % 63 + 1) >> rank & 1) ranks.push_back(rank);
        }
        if (ranks.size() < 2 || ranks.size() == 6) continue;
        sets.push_back(world.add_process_set(ranks));
      }
      std::vector<std::thread> threads;
      for (ProcessSet& set : sets) {
        if (!set.included()) continue;
        threads.emplace_back([&set] {
          for (int step = 0; step < 20; ++step) {
            std::vector<std::int64_t> data(static_cast<std::size_t>(1 + step * step * 37),
                                           set.rank() + 1);
            set.allreduce("x", view(data), {.op = ReduceOp::kSum}).wait();
            const int n = set.size();
            for (std::int64_t value : data) ASSERT_EQ(value, n * (n + 1) / 2);
          }
        });
      }
      for (auto& thread : threads) thread.join();
      world.barrier().wait();  // who leaves the world ends all of its sets
    });
  }
}

TEST(ProcessSets, JoinIsForTheRanksOfTheSet) {
  run_ranks(on_hosts({2, 2}), [](World& world) {
    ProcessSet set = world.add_process_set({1, 2, 3});
    std::vector<float> data{1};
    if (set.included()) {
      for (int step = 0; step < world.rank(); ++step) {
        data[0] = 1;
        set.allreduce("x", view(data), {.op = ReduceOp::kSum}).wait();
        EXPECT_EQ(data[0], step < 1 ? 3 : step < 2 ? 2 : 1);
      }
      Handle join = set.join();
      join.wait();
      EXPECT_EQ(join.last_joined(), 3);
    }
    data[0] = 1;
    world.allreduce("x", view(data), {.op = ReduceOp::kSum}).wait();
    EXPECT_EQ(data[0], 4);
  });
}

}  // namespace
}  // namespace hv::tests
