// Adasum against the published formula in double precision.
#include <cmath>
#include <random>

#include "tests/horovod/behaviour.h"

namespace hv::tests {
namespace {

using Vector = std::vector<double>;

Vector adasum(const Vector& a, const Vector& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  Vector sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum[i] = (aa > 0 ? 1 - ab / (2 * aa) : 1) * a[i] + (bb > 0 ? 1 - ab / (2 * bb) : 1) * b[i];
  }
  return sum;
}

// Neighbours first, then neighbouring pairs, …; who has no neighbour waits for the next round.
Vector adasum_of(std::vector<Vector> inputs) {
  while (inputs.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i + 1 < inputs.size(); i += 2) {
      next.push_back(adasum(inputs[i], inputs[i + 1]));
    }
    if (inputs.size() % 2 == 1) next.push_back(inputs.back());
    inputs = std::move(next);
  }
  return inputs.front();
}

Vector input_of(int rank, std::size_t count, unsigned seed) {
  std::mt19937 random(seed + static_cast<unsigned>(rank));
  std::normal_distribution<float> normal(0.3f);
  Vector values(count);
  for (double& value : values) value = to_float(to_bfloat16(normal(random)));
  return values;
}

template <class T, class Make, class Read>
void check(World& world, std::size_t count, double tolerance, Make make, Read read) {
  std::vector<Vector> inputs;
  for (int rank = 0; rank < world.size(); ++rank) inputs.push_back(input_of(rank, count, 7));
  std::vector<T> data;
  for (double value : inputs[static_cast<std::size_t>(world.rank())]) data.push_back(make(value));
  world.allreduce("g", view(data), {.op = ReduceOp::kAdasum}).wait();
  const Vector wanted = adasum_of(inputs);
  double largest = 0;
  for (double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_NEAR(read(data[i]), wanted[i], tolerance * largest) << i << " of " << count;
  }
}

class AdasumTest : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(AdasumTest, FollowsTheFormulaInEveryType) {
  run_ranks(on_hosts(GetParam()), [](World& world) {
    for (std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{10'001}}) {
      const auto same = [](auto value) { return static_cast<double>(value); };
      const auto wide = [](auto value) { return static_cast<double>(to_float(value)); };
      check<double>(
          world, count, 1e-12, [](double v) { return v; }, same);
      check<float>(
          world, count, 1e-5, [](double v) { return static_cast<float>(v); }, same);
      check<Float16>(
          world, count, 2e-3, [](double v) { return to_float16(static_cast<float>(v)); }, wide);
      check<BFloat16>(
          world, count, 2e-2, [](double v) { return to_bfloat16(static_cast<float>(v)); }, wide);
    }
  });
}

TEST_P(AdasumTest, EqualGradientsStayAndOrthogonalOnesAdd) {
  run_ranks(on_hosts(GetParam()), [](World& world) {
    std::vector<double> equal{3, -4}, own(static_cast<std::size_t>(world.size()), 0);
    own[static_cast<std::size_t>(world.rank())] = 5;
    Handle both = world.grouped_allreduce("g", {view(equal), view(own)}, {ReduceOp::kAdasum});
    std::vector<float> scaled{2, 2};
    world.allreduce("s", view(scaled), {ReduceOp::kAdasum, 0.5, 8}).wait();
    both.wait();
    EXPECT_NEAR(equal[0], 3, 1e-12);
    EXPECT_NEAR(equal[1], -4, 1e-12);
    for (double value : own) EXPECT_NEAR(value, 5, 1e-12);
    EXPECT_FLOAT_EQ(scaled[0], 8);
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, AdasumTest,
                         ::testing::Values(std::vector{1}, std::vector{2}, std::vector{3},
                                           std::vector{4}, std::vector{8}, std::vector{1, 1},
                                           std::vector{2, 1, 2}, std::vector{3, 3, 1}),
                         [](const auto& hosts) {
                           std::string name = "hosts";
                           for (int ranks : hosts.param) name += std::to_string(ranks);
                           return name;
                         });

std::vector<float> results(const InprocOptions& options) {
  std::vector<float> of_rank_0;
  run_ranks(options, [&](World& world) {
    std::vector<std::vector<float>> data;
    std::vector<TensorView> views;
    for (unsigned i = 0; i < 5; ++i) {
      const Vector values = input_of(world.rank(), 100 + 3001 * i, i);
      data.emplace_back(values.begin(), values.end());
    }
    for (auto& one : data) views.push_back(view(one));
    world.grouped_allreduce("g", views, {ReduceOp::kAdasum}).wait();
    if (world.rank() != 0) return;
    for (auto& one : data) of_rank_0.insert(of_rank_0.end(), one.begin(), one.end());
  });
  return of_rank_0;
}

TEST(Adasum, ItsBitsDependNeitherOnBatchesNorOnHosts) {
  InprocOptions options = on_hosts({5});
  const auto wanted = results(options);
  options.knobs.fusion_bytes = 0;
  EXPECT_EQ(results(options), wanted);
  options.hosts = {2, 2, 1};
  EXPECT_EQ(results(options), wanted);
}

TEST(Adasum, RunsInProcessSetsAndWithJoinedRanks) {
  run_ranks(on_hosts({2, 2}), [](World& world) {
    ProcessSet set = world.add_process_set({1, 2, 3});
    if (set.included()) {
      std::vector<float> data{1, 2};
      set.allreduce("g", view(data), {ReduceOp::kAdasum}).wait();
      EXPECT_FLOAT_EQ(data[1], 2);
    }
    std::vector<float> alone{4, 4};
    if (world.rank() == 3) world.allreduce("a", view(alone), {ReduceOp::kAdasum}).wait();
    world.join().wait();
    EXPECT_FLOAT_EQ(alone[0], 4);
  });
}

}  // namespace
}  // namespace hv::tests
