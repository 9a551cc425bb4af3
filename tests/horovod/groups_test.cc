// Grouped operations, as Horovod documents them: submitted in one go, one handle for all.
#include "tests/horovod/behaviour.h"

namespace hv::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Groups, OneHandleIsDoneWhenAllAre) {
  for (auto options : one_and_three_hosts()) {
    for (bool alone : {false, true}) {  // HVRUN_DISABLE_GROUP_FUSION
      options.knobs.group_fusion_off = alone;
      run_ranks(options, [](World& world) {
        const int n = world.size();
        std::vector<std::vector<float>> data;
        std::vector<TensorView> views;
        for (int i = 0; i < 20; ++i) {
          data.emplace_back(static_cast<std::size_t>(i * i), static_cast<float>(world.rank() + i));
        }
        for (auto& one : data) views.push_back(view(one));
        std::vector<float> single{1};
        Handle beside = world.allreduce("single", view(single), {.op = ReduceOp::kSum});
        Handle group = world.grouped_allreduce("g", views, {.op = ReduceOp::kSum});
        EXPECT_EQ(group.outputs(), 20u);
        group.wait();
        EXPECT_TRUE(group.done());
        EXPECT_GE(group.done_ns(), group.submitted_ns());
        for (int i = 0; i < 20; ++i) {
          for (float value : data[static_cast<std::size_t>(i)]) {
            ASSERT_EQ(value, static_cast<float>(n * i + n * (n - 1) / 2));
          }
        }
        beside.wait();
      });
    }
  }
}

TEST(Groups, GatheredAndScatteredTensorsAreTheHandlesOutputs) {
  for (const auto& options : one_and_three_hosts()) {
    run_ranks(options, [](World& world) {
      const int n = world.size();
      std::vector<std::int32_t> a(2, world.rank()), b(static_cast<std::size_t>(world.rank()), 7);
      Handle gathered = world.grouped_allgather("g", {view(a), view(b)});
      gathered.wait();
      EXPECT_EQ(gathered.output(0).count(), 2 * n);
      EXPECT_EQ(values_of<std::int32_t>(gathered.output(0))[3], 1);
      EXPECT_EQ(gathered.rows(1)[2], 2);
      EXPECT_THAT(values_of<std::int32_t>(gathered.output(1)),
                  ::testing::AllOf(::testing::SizeIs(n * (n - 1) / 2), ::testing::Each(7)));

      std::vector<double> c(static_cast<std::size_t>(n), 1), d(static_cast<std::size_t>(3 * n), 2);
      Handle scattered =
          world.grouped_reducescatter("s", {view(c), view(d.data(), {n, 3})}, {ReduceOp::kSum});
      scattered.wait();
      EXPECT_THAT(values_of<double>(scattered.output(0)), ElementsAre(n));
      EXPECT_THAT(values_of<double>(scattered.output(1)), ElementsAre(2 * n, 2 * n, 2 * n));
      EXPECT_EQ(error_of([&] { (void)scattered.output(2); }).code(), ErrorCode::kInvalidArgument);
    });
  }
}

TEST(Groups, OutOfPlaceInputsStayAsTheyAre) {
  run_ranks(on_hosts({2}), [](World& world) {
    std::vector<float> in{1, 2}, out(2);
    world.grouped_allreduce("g", {view(in)}, {view(out)}, {.op = ReduceOp::kSum}).wait();
    EXPECT_THAT(in, ElementsAre(1, 2));
    EXPECT_THAT(out, ElementsAre(2, 4));
  });
}

TEST(Groups, ANameThatIsPendingRefusesTheWholeGroupAndLeavesNothingBehind) {
  auto made = make_inproc_worlds(on_hosts({2}));
  std::vector<float> a{1}, b{1}, c{1};
  Handle second = made.worlds[0].allreduce("g_1of2", view(b), {.op = ReduceOp::kSum});
  const Error error = error_of([&] { made.worlds[0].grouped_allreduce("g", {view(a), view(c)}); });
  EXPECT_EQ(error.code(), ErrorCode::kDuplicateName);
  EXPECT_THAT(error.what(), HasSubstr("'g_1of2'"));
  // The first member was not submitted: its name is free.
  Handle first = made.worlds[0].allreduce("g_0of2", view(a), {.op = ReduceOp::kSum});
  std::vector<float> d{1}, e{1};
  made.worlds[1].grouped_allreduce("g", {view(d), view(e)}, {.op = ReduceOp::kSum}).wait();
  first.wait();
  second.wait();
  EXPECT_EQ(a[0] + b[0] + d[0] + e[0], 8);
}

TEST(Groups, AMismatchOfOneTensorIsTheHandlesErrorOnEveryRank) {
  run_ranks(on_hosts({2, 1}), [](World& world) {
    std::vector<float> a(4), b(world.rank() == 2 ? 3 : 4);
    const Error error = error_of([&] { world.grouped_allreduce("g", {view(a), view(b)}).wait(); });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("'g_1of2'"));
    EXPECT_THAT(error.what(), HasSubstr("[3] on rank 2"));
    world.grouped_allreduce("g", {view(a), view(a)}).wait();
  });
}

TEST(Groups, MustHaveTensors) {
  run_ranks(on_hosts({1}), [](World& world) {
    EXPECT_EQ(error_of([&] { world.grouped_allreduce("g", {}); }).code(),
              ErrorCode::kInvalidArgument);
    std::vector<float> a(4);
    EXPECT_EQ(error_of([&] {
                world.grouped_allreduce("g", {view(a)}, std::vector<TensorView>());
              }).code(),
              ErrorCode::kInvalidArgument);
  });
}

}  // namespace
}  // namespace hv::tests
