// Collectives, reductions, factors, join and barrier, as Horovod documents them.
#include <atomic>

#include "tests/horovod/behaviour.h"
#include "tests/support/operations_check.h"

namespace hv::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Place {
  std::string name;
  std::vector<int> hosts;
};
std::ostream& operator<<(std::ostream& out, const Place& place) { return out << place.name; }

std::vector<Place> places() {
  std::vector<Place> all;
  for (int n = 1; n <= 8; ++n) all.push_back({std::to_string(n) + "on1", {n}});
  for (int n = 3; n <= 8; ++n) {
    all.push_back({std::to_string(n) + "on3", {n / 3 + (n % 3 > 0), n / 3 + (n % 3 > 1), n / 3}});
  }
  return all;
}

class Operations : public ::testing::TestWithParam<Place> {};

TEST_P(Operations, AreExactForEveryTypeAndEmptyAndUnevenTensors) {
  run_ranks(on_hosts(GetParam().hosts), [](World& world) {
    test::OperationsCheck check(world, world.process_sets()[0].ranks(), world.rank());
    EXPECT_EQ(check.run({0, 1, 7, 1030}), "");
  });
}

TEST_P(Operations, TakeLargeTensorsInManyChunks) {
  run_ranks(on_hosts(GetParam().hosts), [](World& world) {
    const int n = world.size();
    const std::int64_t rows = 300'001;
    std::vector<float> data(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
      data[static_cast<std::size_t>(i)] = static_cast<float>(i % 1000 + world.rank());
    }
    Handle scattered = world.reducescatter("s", view(data), {.op = ReduceOp::kSum});
    scattered.wait();
    std::int64_t at = 0;
    for (int r = 0; r < world.rank(); ++r) at += rows / n + (r < rows % n);
    for (float value : values_of<float>(scattered.output())) {
      ASSERT_EQ(value, static_cast<float>(at % 1000 * n + n * (n - 1) / 2)) << at;
      ++at;
    }
    std::vector<std::int64_t> splits;
    std::int64_t all = 0;
    for (int r = 0; r < n; ++r) all += splits.emplace_back(100'000 / (1 + r + world.rank()));
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(all));
    std::int64_t next = 0;
    for (int r = 0; r < n; ++r) {
      for (std::int64_t i = 0; i < splits[static_cast<std::size_t>(r)]; ++i) {
        numbers[static_cast<std::size_t>(next++)] =
            static_cast<std::int32_t>(i * 64 + world.rank() * 8 + r);
      }
    }
    Handle exchanged = world.alltoall("a", view(numbers), splits);
    exchanged.wait();
    const auto got = values_of<std::int32_t>(exchanged.output());
    std::size_t place = 0;
    for (int from = 0; from < n; ++from) {
      for (std::int64_t i = 0; i < 100'000 / (1 + from + world.rank()); ++i) {
        ASSERT_EQ(got.at(place++), i * 64 + from * 8 + world.rank());
      }
    }
    ASSERT_EQ(place, got.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Operations, ::testing::ValuesIn(places()),
                         [](const auto& place) { return place.param.name; });

TEST(Collectives, PrescaleAndPostscaleMultiplyInputsAndResult) {
  for (const auto& options : one_and_three_hosts()) {
    run_ranks(options, [](World& world) {
      const int n = world.size();
      std::vector<double> data{1, 2, 3, 4, 5, 6, 7, 8};
      world.allreduce("r", view(data), {ReduceOp::kSum, 0.5, 3}).wait();
      for (std::size_t i = 0; i < data.size(); ++i) {
        ASSERT_EQ(data[i], static_cast<double>(i + 1) * 0.5 * n * 3);
      }
      std::vector<float> rows(static_cast<std::size_t>(n), 2);
      Handle handle = world.reducescatter("s", view(rows), {ReduceOp::kAverage, 0.25, 4});
      handle.wait();
      ASSERT_THAT(values_of<float>(handle.output()), ElementsAre(2));
      std::vector<std::int32_t> whole{10};
      world.allreduce("i", view(whole), {ReduceOp::kSum, 0.5, 1}).wait();
      ASSERT_EQ(whole[0], 5 * n);
    });
  }
}

TEST(Collectives, TheFirstRanksOfAReducescatterGetTheRowsThatAreLeftOver) {
  run_ranks(on_hosts({4}), [](World& world) {
    std::vector<std::int64_t> data{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    Handle handle = world.reducescatter("s", view(data.data(), {6, 2}), {.op = ReduceOp::kSum});
    handle.wait();
    EXPECT_THAT(handle.output().shape, ElementsAre(world.rank() < 2 ? 2 : 1, 2));
    const std::int64_t first = world.rank() < 2 ? 4 * world.rank() : 2 * world.rank() + 4;
    EXPECT_EQ(values_of<std::int64_t>(handle.output())[0], 4 * (first + 1));
  });
}

TEST(Collectives, AnAlltoallWithoutSplitsGivesEveryoneTheSame) {
  for (const auto& options : one_and_three_hosts()) {
    run_ranks(options, [](World& world) {
      const int n = world.size();
      std::vector<std::int32_t> data;
      for (int i = 0; i < 2 * n; ++i) data.push_back(100 * world.rank() + i);
      Handle handle = world.alltoall("a", view(data));
      handle.wait();
      const auto got = values_of<std::int32_t>(handle.output());
      for (int from = 0; from < n; ++from) {
        ASSERT_EQ(handle.rows()[static_cast<std::size_t>(from)], 2);
        ASSERT_EQ(got[static_cast<std::size_t>(2 * from)], 100 * from + 2 * world.rank());
      }
    });
  }
}

TEST(Collectives, ASparseAllreduceGathersIndicesAndDividesTheValues) {
  for (const auto& options : one_and_three_hosts()) {
    run_ranks(options, [](World& world) {
      const int n = world.size();
      std::vector<std::int64_t> indices;
      std::vector<float> values;
      for (int i = 0; i < world.rank(); ++i) {
        indices.push_back(10 * world.rank() + i);
        values.insert(values.end(), {static_cast<float>(n * i), static_cast<float>(n)});
      }
      Handle handle =
          world.sparse_allreduce("e", view(indices), view(values.data(), {world.rank(), 2}));
      std::fill(values.begin(), values.end(), -1.0f);  // was copied
      handle.wait();
      EXPECT_EQ(handle.outputs(), 2u);
      std::vector<std::int64_t> all;
      std::vector<float> wanted;
      for (int r = 0; r < n; ++r) {
        for (int i = 0; i < r; ++i) {
          all.push_back(10 * r + i);
          wanted.insert(wanted.end(), {static_cast<float>(i), 1});
        }
      }
      EXPECT_EQ(values_of<std::int64_t>(handle.output(0)), all);
      EXPECT_EQ(values_of<float>(handle.output(1)), wanted);
    });
  }
}

TEST(Collectives, ABarrierIsPassedByNobodyBeforeAllHaveCome) {
  std::atomic<int> arrived{0};
  run_ranks(on_hosts({2, 2}), [&](World& world) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      world.barrier().wait();
      EXPECT_GE(arrived.load(), 4 * round);
      world.barrier("second").wait();
    }
  });
}

// ---- join --------------------------------------------------------------------------------------

TEST(Join, RanksWithMoreStepsGoOnWithoutThoseThatAreDone) {
  for (auto hosts : {std::vector{3}, std::vector{2, 1}, std::vector{1, 1, 1}}) {
    run_ranks(on_hosts(hosts), [](World& world) {
      const int steps[] = {10, 11, 13};
      const int mine = steps[world.rank()];
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (int step = 0; step < mine; ++step) {
          int there = 0, sum = 0;
          for (int r = 0; r < 3; ++r) {
            if (step >= steps[r]) continue;
            there += 1;
            sum += r + 1;
          }
          const auto value = static_cast<float>(world.rank() + 1);
          std::vector<float> total{value}, mean(5000, value);
          std::vector<std::int32_t> low{world.rank() + 1}, high{-1 - world.rank()}, times{2};
          auto handle = world.grouped_allreduce("mean", {view(mean)});
          world.allreduce("sum", view(total), {.op = ReduceOp::kSum}).wait();
          world.allreduce("min", view(low), {.op = ReduceOp::kMin}).wait();
          world.allreduce("max", view(high), {.op = ReduceOp::kMax}).wait();
          world.allreduce("product", view(times), {.op = ReduceOp::kProduct}).wait();
          world.barrier().wait();
          handle.wait();
          const int lowest = step < steps[0] ? 0 : step < steps[1] ? 1 : 2;
          ASSERT_EQ(total[0], static_cast<float>(sum));
          ASSERT_EQ(mean[4999], static_cast<float>(sum) / 3);  // of all ranks, joined or not
          ASSERT_EQ(low[0], lowest + 1);
          ASSERT_EQ(high[0], -1 - lowest);
          ASSERT_EQ(times[0], 1 << there);
          if (step == steps[2] - 1) {  // only rank 2 is left; a new name, and a new shape
            std::vector<double> fresh(3 + static_cast<std::size_t>(epoch), 7);
            world.allreduce("fresh", view(fresh), {.op = ReduceOp::kSum}).wait();
            ASSERT_EQ(fresh[2], 7);
          }
        }
        Handle join = world.join();
        join.wait();
        ASSERT_EQ(join.last_joined(), 2);
        std::vector<double> fresh(3 + static_cast<std::size_t>(epoch), 1);
        world.allreduce("fresh", view(fresh), {.op = ReduceOp::kSum}).wait();
        ASSERT_EQ(fresh[0], 3);
      }
    });
  }
}

TEST(Join, TheLastRankToJoinIsToldToAll) {
  run_ranks(on_hosts({3}), [](World& world) {
    for (int last : {1, 0, 2}) {
      std::vector<float> one{1};
      // Done when the two others have joined.
      if (world.rank() == last) world.allreduce("alone", view(one)).wait();
      Handle join = world.join();
      join.wait();
      EXPECT_EQ(join.last_joined(), last);
    }
  });
}

TEST(Join, OtherOperationsAreRefusedByNameOnEveryRankThatIsLeft) {
  for (auto hosts : {std::vector{4}, std::vector{2, 1, 1}}) {
    run_ranks(on_hosts(hosts), [](World& world) {
      std::vector<float> data(8, 1);
      if (world.rank() != 1) {
        const auto refused = [&](const char* kind, auto call) {
          const Error error = error_of([&] { call().wait(); });
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
          EXPECT_THAT(error.what(), HasSubstr(std::string(kind) + " 'x"));
          EXPECT_THAT(error.what(), HasSubstr("rank 1 has joined"));
        };
        refused("allgather", [&] { return world.allgather("x", view(data)); });
        refused("broadcast", [&] { return world.broadcast("x", view(data), 0); });
        refused("alltoall", [&] { return world.alltoall("x", view(data)); });
        refused("reducescatter", [&] { return world.reducescatter("x", view(data)); });
        refused("allreduce", [&] {
          return world.allreduce("x", view(data), {.op = ReduceOp::kMax, .prescale = 2});
        });
        world.allreduce("x", view(data), {.op = ReduceOp::kSum}).wait();
        EXPECT_EQ(data[7], 3);
      }
      world.join().wait();
      std::vector<float> again(4, 1);
      Handle gathered = world.allgather("x", view(again));
      gathered.wait();
      EXPECT_EQ(gathered.output().count(), 16);
    });
  }
}

}  // namespace
}  // namespace hv::tests
