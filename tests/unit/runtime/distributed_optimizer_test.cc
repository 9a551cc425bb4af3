// DistributedOptimizer and broadcast_parameters over worlds of threads. Gradients are small whole
// numbers, so that every expectation is exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "hv/training.h"
#include "tests/support/error_of.h"
#include "tests/support/inproc_world.h"

namespace hv {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using tests::run_ranks;

// Two parameters, "a" of two elements and "b" of one, all 0. A step of plain SGD with rate -1
// adds the global gradient.
struct Model {
  std::vector<float> a{0, 0}, b{0}, a_gradient{0, 0}, b_gradient{0};

  std::vector<Parameter> parameters() {
    return {{"a", view(a), view(a_gradient)}, {"b", view(b), view(b_gradient)}};
  }
  void set_gradients(float a0, float a1, float b0) {
    a_gradient = {a0, a1};
    b_gradient = {b0};
  }
  std::vector<float> all() const { return {a[0], a[1], b[0]}; }
};

DistributedOptimizer wrap(World& world, Model& model, const DistributedOptions& options) {
  return {world, model.parameters(), make_sgd(), options};
}

constexpr double kAddGradient = -1;

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, testing::Values(1, 2, 3, 8));

TEST_P(Ranks, AveragesOverRanks) {
  run_ranks({GetParam()}, [](World& world) {
    Model model;
    auto optimizer = wrap(world, model, {});
    for (int step = 1; step <= 3; ++step) {
      const auto mine = static_cast<float>(2 * world.rank());
      model.set_gradients(mine, mine + 10, mine + 20);
      optimizer.gradient_ready("b");
      optimizer.gradient_ready("a");
      optimizer.step(kAddGradient);
      const auto mean = static_cast<float>(world.size() - 1), steps = static_cast<float>(step);
      EXPECT_THAT(model.all(), ElementsAre(mean * steps, (mean + 10) * steps, (mean + 20) * steps));
    }
  });
}

TEST_P(Ranks, Sums) {
  run_ranks({GetParam()}, [](World& world) {
    Model model;
    auto optimizer = wrap(world, model, {.weighting = Weighting::kSum});
    model.set_gradients(1, 2, 3);
    optimizer.gradient_ready("a");
    optimizer.gradient_ready("b");
    optimizer.step(kAddGradient);
    const auto n = static_cast<float>(world.size());
    EXPECT_THAT(model.all(), ElementsAre(n, 2 * n, 3 * n));
  });
}

// 3 samples, whose gradients are 1, 2 and 6 per element, dealt out to the ranks; the mean is 3,
// however many ranks there are and whether a rank hands in means or sums.
TEST_P(Ranks, WeighsBySamples) {
  for (bool sums : {false, true}) {
    run_ranks({GetParam()}, [&](World& world) {
      Model model;
      auto optimizer =
          wrap(world, model, {.weighting = sums ? Weighting::kSampleSum : Weighting::kSampleMean});
      const std::vector<float> samples{1, 2, 6};
      const auto mine = DistributedSampler(3, world.rank(), world.size()).indices();
      optimizer.begin_pass(static_cast<std::int64_t>(mine.size()));
      float gradient = 0;
      for (auto row : mine) gradient += samples[static_cast<std::size_t>(row)];
      if (!sums) gradient /= static_cast<float>(mine.size());  // NaN where there is no sample
      model.set_gradients(gradient, gradient, gradient);
      optimizer.gradient_ready("a");
      if (!mine.empty()) optimizer.gradient_ready("b");
      optimizer.step(kAddGradient);
      EXPECT_THAT(model.all(), Each(3.0f)) << "rank " << world.rank();
    });
  }
}

TEST_P(Ranks, CountsMissingGradientsAsZeros) {
  run_ranks({GetParam()}, [](World& world) {
    Model model;
    auto optimizer = wrap(world, model, {.weighting = Weighting::kSum});
    model.set_gradients(4, 4, 4);  // b's is stale on all ranks but 0: not handed in
    optimizer.gradient_ready("a");
    if (world.rank() == 0) optimizer.gradient_ready("b");
    optimizer.step(kAddGradient);
    const auto n = static_cast<float>(world.size());
    EXPECT_THAT(model.all(), ElementsAre(4 * n, 4 * n, 4));
    optimizer.step(kAddGradient);  // nobody has anything
    EXPECT_THAT(model.all(), ElementsAre(4 * n, 4 * n, 4));
  });
}

TEST_P(Ranks, AccumulatesPasses) {
  run_ranks({GetParam()}, [](World& world) {
    Model model;
    auto optimizer =
        wrap(world, model, {.weighting = Weighting::kSampleSum, .backward_passes_per_step = 3});
    for (int step = 1; step <= 2; ++step) {
      for (int pass = 1; pass <= 3; ++pass) {
        optimizer.begin_pass(pass);  // 6 samples a rank and step
        const auto gradient = static_cast<float>(6 * pass);
        model.set_gradients(gradient, gradient, gradient);
        optimizer.gradient_ready("a");
        if (pass != 2) optimizer.gradient_ready("b");
      }
      optimizer.step(kAddGradient);
      const auto steps = static_cast<float>(step);
      EXPECT_THAT(model.all(), ElementsAre(6 * steps, 6 * steps, 4 * steps));
    }
  });
}

TEST_P(Ranks, AStepMayEndAnIncompleteAccumulation) {
  run_ranks({GetParam()}, [](World& world) {
    Model model;
    auto optimizer =
        wrap(world, model, {.weighting = Weighting::kSampleMean, .backward_passes_per_step = 4});
    for (int pass = 0; pass < 2; ++pass) {
      optimizer.begin_pass(5);
      model.set_gradients(3, 4, 5);
      optimizer.gradient_ready("a");
      optimizer.gradient_ready("b");
    }
    optimizer.step(kAddGradient);
    EXPECT_THAT(model.all(), ElementsAre(3, 4, 5));
  });
}

// Sums over samples far beyond float16's 65,504: what is sent is a share of the mean.
TEST_P(Ranks, CompressesWithoutOverflow) {
  for (auto compression : {Compression::kFloat16, Compression::kBFloat16}) {
    for (int passes : {1, 2}) {
      run_ranks({GetParam()}, [&](World& world) {
        Model model;
        auto optimizer = wrap(world, model,
                              {.weighting = Weighting::kSampleSum,
                               .compression = compression,
                               .backward_passes_per_step = passes});
        for (int pass = 0; pass < passes; ++pass) {
          optimizer.begin_pass(1 << 16);
          model.set_gradients(1 << 18, 1 << 20, -(1 << 17));
          optimizer.gradient_ready("a");
          optimizer.gradient_ready("b");
        }
        optimizer.step(kAddGradient);
        EXPECT_NEAR(model.a[0], 4, 0.05);
        EXPECT_NEAR(model.a[1], 16, 0.2);
        EXPECT_NEAR(model.b[0], -2, 0.025);
      });
    }
  }
}

TEST(DistributedOptimizer, CompressionRoundsAsItsTypeDoes) {
  run_ranks({2}, [](World& world) {
    Model half, brain;
    auto in_half = wrap(world, half, {.name = "half", .compression = Compression::kFloat16});
    auto in_brain = wrap(world, brain, {.name = "brain", .compression = Compression::kBFloat16});
    half.set_gradients(1.0f + 0x1p-9f, 1.0f + 0x1p-12f, 0);  // float16 has 11 bits
    brain.set_gradients(1.0f + 0x1p-7f, 1.0f + 0x1p-9f, 0);  // bfloat16 has 8
    in_half.gradient_ready("a");
    in_brain.gradient_ready("a");
    in_brain.step(kAddGradient);
    in_half.step(kAddGradient);
    EXPECT_THAT(half.all(), ElementsAre(1.0f + 0x1p-9f, 1.0f, 0));
    EXPECT_THAT(brain.all(), ElementsAre(1.0f + 0x1p-7f, 1.0f, 0));
  });
}

TEST(DistributedOptimizer, NoSamplesAnywhereChangeNothing) {
  for (auto compression : {Compression::kNone, Compression::kFloat16}) {
    run_ranks({2}, [&](World& world) {
      Model model;
      auto optimizer =
          wrap(world, model, {.weighting = Weighting::kSampleMean, .compression = compression});
      optimizer.begin_pass(0);
      model.set_gradients(NAN, NAN, NAN);
      optimizer.gradient_ready("a");
      optimizer.step(kAddGradient);
      EXPECT_THAT(model.all(), Each(0.0f));
    });
  }
}

TEST(DistributedOptimizer, DoublePrecisionStaysDouble) {
  run_ranks({2}, [](World& world) {
    std::vector<double> value{0}, gradient{1 + 0x1p-40};
    for (int passes : {1, 2}) {
      value[0] = 0;
      DistributedOptimizer optimizer(world, {{"w", view(value), view(gradient)}}, make_sgd(),
                                     {.backward_passes_per_step = passes});
      for (int pass = 0; pass < passes; ++pass) {
        gradient[0] = 1 + 0x1p-40;
        optimizer.gradient_ready("w");
      }
      optimizer.step(kAddGradient);
      EXPECT_EQ(value[0], passes * (1 + 0x1p-40));
    }
  });
}

TEST(DistributedOptimizer, ShowsTheGlobalGradientsBeforeTheStep) {
  run_ranks({2}, [](World& world) {
    Model model;
    auto optimizer = wrap(world, model, {.weighting = Weighting::kSampleSum});
    optimizer.begin_pass(2);
    model.set_gradients(6, 8, 10);
    optimizer.gradient_ready("a");
    optimizer.gradient_ready("b");
    optimizer.synchronize();
    EXPECT_THAT(model.a_gradient, ElementsAre(3, 4));
    EXPECT_EQ(error_of([&] { optimizer.gradient_ready("a"); }).code(), ErrorCode::kDuplicateName);
    model.a_gradient = {1, 1};  // as clipping would
    optimizer.step(kAddGradient);
    EXPECT_THAT(model.all(), ElementsAre(1, 1, 5));

    optimizer.begin_pass(1);
    optimizer.gradient_ready("a");
    optimizer.synchronize();
    optimizer.begin_pass(1);  // drops what was synchronized
    model.set_gradients(2, 2, 2);
    optimizer.gradient_ready("a");
    optimizer.gradient_ready("b");
    optimizer.step(kAddGradient);
    EXPECT_THAT(model.all(), ElementsAre(3, 3, 7));
  });
}

// What a user may bring along: remembers what it was asked to do.
class Recorder : public Optimizer {
 public:
  explicit Recorder(std::vector<std::string>& log) : log_(log) {}
  void attach(const std::vector<Parameter>& parameters) override {
    parameters_ = parameters;
    for (const auto& parameter : parameters) log_.push_back("attach " + parameter.name);
  }
  void step(double rate) override {
    const auto* gradient = static_cast<const float*>(parameters_[0].gradient.data);
    log_.push_back("step " + std::to_string(rate) + " " + std::to_string(gradient[1]));
  }
  std::vector<NamedTensor> state() override { return {{"recorder", view(&steps_, {1})}}; }

 private:
  std::vector<std::string>& log_;
  std::vector<Parameter> parameters_;
  std::int64_t steps_ = 0;
};

TEST(DistributedOptimizer, WrapsAnOptimizerOfTheUsers) {
  run_ranks({2}, [](World& world) {
    Model model;
    std::vector<std::string> log;
    DistributedOptimizer optimizer(world, model.parameters(), std::make_unique<Recorder>(log));
    model.set_gradients(0, static_cast<float>(world.rank() * 3), 0);
    optimizer.gradient_ready("a");
    optimizer.step(0.25);
    EXPECT_THAT(log, ElementsAre("attach a", "attach b", "step 0.250000 1.500000"));
    ASSERT_EQ(optimizer.state().size(), 1u);
    EXPECT_EQ(optimizer.state()[0].name, "recorder");
    ASSERT_EQ(optimizer.values().size(), 2u);
    EXPECT_EQ(optimizer.values()[1].name, "b");
  });
}

TEST(DistributedOptimizer, TakesGradientsFromSeveralThreads) {
  constexpr int kThreads = 3, kEach = 20, kSteps = 20;
  run_ranks({2}, [](World& world) {
    std::vector<std::vector<float>> values(kThreads * kEach, {0}), gradients = values;
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameters.push_back({"p" + std::to_string(i), view(values[i]), view(gradients[i])});
    }
    DistributedOptimizer optimizer(world, parameters, make_sgd(),
                                   {.weighting = Weighting::kSampleSum});
    for (int step = 0; step < kSteps; ++step) {
      optimizer.begin_pass(1);
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int k = 0; k < kEach; ++k) {
            const auto i = static_cast<std::size_t>(t * kEach + k);
            gradients[i][0] = static_cast<float>(i);
            optimizer.gradient_ready("p" + std::to_string(i));
          }
        });
      }
      for (auto& thread : threads) thread.join();
      optimizer.step(kAddGradient);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i][0], static_cast<float>(i * kSteps));
    }
  });
}

TEST(DistributedOptimizer, RefusesWrongCallsAndGoesOn) {
  run_ranks({2}, [](World& world) {
    Model model;
    auto optimizer = wrap(world, model, {.name = "net", .weighting = Weighting::kSampleSum});
    const auto early = error_of([&] { optimizer.gradient_ready("a"); });
    EXPECT_EQ(early.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(early.what(), HasSubstr("before begin_pass"));
    EXPECT_EQ(error_of([&] { optimizer.begin_pass(-1); }).code(), ErrorCode::kInvalidArgument);
    optimizer.begin_pass(1);
    EXPECT_THAT(error_of([&] { optimizer.begin_pass(1); }).what(), HasSubstr("call step first"));
    const auto unknown = error_of([&] { optimizer.gradient_ready("c"); });
    EXPECT_EQ(unknown.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(unknown.what(), HasSubstr("'net'"));
    EXPECT_THAT(unknown.what(), HasSubstr("no parameter is named 'c'"));
    model.set_gradients(1, 2, 3);
    optimizer.gradient_ready("a");
    const auto twice = error_of([&] { optimizer.gradient_ready("a"); });
    EXPECT_EQ(twice.code(), ErrorCode::kDuplicateName);
    EXPECT_THAT(twice.what(), HasSubstr("'a' was handed in once too often"));
    optimizer.gradient_ready("b");
    optimizer.step(kAddGradient);
    EXPECT_THAT(model.all(), ElementsAre(1, 2, 3));
  });
}

TEST(DistributedOptimizer, RefusesASecondHandInOfTheSamePass) {
  run_ranks({1}, [](World& world) {
    Model model;
    auto optimizer =
        wrap(world, model, {.weighting = Weighting::kSampleSum, .backward_passes_per_step = 2});
    optimizer.begin_pass(1);
    optimizer.gradient_ready("a");
    EXPECT_EQ(error_of([&] { optimizer.gradient_ready("a"); }).code(), ErrorCode::kDuplicateName);
    optimizer.begin_pass(1);
    EXPECT_NO_THROW(optimizer.gradient_ready("a"));
  });
}

TEST(DistributedOptimizer, SuggestsTheNameThatWasMeant) {
  run_ranks({1}, [](World& world) {
    std::vector<float> value(1), gradient(1);
    DistributedOptimizer optimizer(world, {{"layer1.weight", view(value), view(gradient)}},
                                   make_sgd());
    EXPECT_THAT(error_of([&] { optimizer.gradient_ready("layer1.wieght"); }).what(),
                HasSubstr("did you mean 'layer1.weight'?"));
  });
}

TEST(DistributedOptimizer, RefusesParametersItCannotTrain) {
  run_ranks({1}, [](World& world) {
    std::vector<float> value(2), gradient(2), longer(3);
    std::vector<std::int32_t> integers(2);
    auto refused = [&](std::vector<Parameter> parameters, const DistributedOptions& options = {}) {
      return error_of([&] { DistributedOptimizer(world, parameters, make_sgd(), options); });
    };
    const Parameter good{"w", view(value), view(gradient)};
    EXPECT_EQ(refused({good, good}).code(), ErrorCode::kDuplicateName);
    EXPECT_THAT(refused({good, good}).what(), HasSubstr("'w'"));
    EXPECT_THAT(refused({{"", view(value), view(gradient)}}).what(), HasSubstr("has no name"));
    EXPECT_THAT(refused({{"w", view(value), view(longer)}}).what(),
                HasSubstr("'w' is float32[2] but its gradient is float32[3]"));
    EXPECT_THAT(refused({{"w", view(integers), view(integers)}}).what(),
                HasSubstr("float32 or float64"));
    EXPECT_THAT(refused({good}, {.backward_passes_per_step = 0}).what(),
                HasSubstr("backward_passes_per_step is 0"));
    EXPECT_THAT(error_of([&] { DistributedOptimizer(world, {good}, nullptr); }).what(),
                HasSubstr("no optimizer to wrap"));
  });
}

TEST(DistributedOptimizer, EveryRankLearnsThatModelsDiffer) {
  run_ranks({3}, [](World& world) {
    std::vector<float> value(4), gradient(4);
    const Shape shape = world.rank() == 2 ? Shape{4, 1} : Shape{2, 2};
    const Parameter parameter{"w", view(value.data(), shape), view(gradient.data(), shape)};
    const auto error =
        error_of([&] { DistributedOptimizer(world, {parameter}, make_sgd(), {.name = "net"}); });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 has w float32[2, 2]"));
    EXPECT_THAT(error.what(), HasSubstr("rank 2 has w float32[4, 1]"));
  });
}

TEST(DistributedOptimizer, ARankThatLeavesEndsTheStepWithAnError) {
  run_ranks({2}, [](World& world) {
    Model model;
    {
      auto optimizer = wrap(world, model, {});
      if (world.rank() == 1) return;
      model.set_gradients(1, 1, 1);
      const auto error = error_of([&] {
        optimizer.gradient_ready("a");
        optimizer.step(kAddGradient);
      });
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
    EXPECT_THAT(model.all(), Each(0.0f));
  });
}

TEST_P(Ranks, BroadcastsParametersInAnyOrder) {
  run_ranks({GetParam()}, [](World& world) {
    const int root = world.size() - 1;
    std::vector<float> weight(1000, static_cast<float>(world.rank()));
    std::vector<std::int64_t> steps{world.rank() * 10};
    std::vector<NamedTensor> tensors{{"weight", view(weight.data(), {10, 100})},
                                     {"steps", view(steps)}};
    if (world.rank() % 2 == 1) std::swap(tensors[0], tensors[1]);
    broadcast_parameters(world, tensors, root);
    EXPECT_THAT(weight, Each(static_cast<float>(root)));
    EXPECT_EQ(steps[0], root * 10);
  });
}

TEST(BroadcastParameters, NamesTheFirstDifference) {
  run_ranks({2}, [](World& world) {
    std::vector<float> weight(2), bias(2);
    std::vector<NamedTensor> tensors{{"weight", view(weight)}};
    if (world.rank() == 1) tensors.push_back({"bias", view(bias)});
    const auto error = error_of([&] { broadcast_parameters(world, tensors); });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr("rank 0 has weight float32[2] where rank 1 has bias float32[2]"));
    const std::vector<NamedTensor> twice{{"w", view(weight)}, {"w", view(bias)}};
    EXPECT_EQ(error_of([&] { broadcast_parameters(world, twice); }).code(),
              ErrorCode::kDuplicateName);
  });
}

}  // namespace
}  // namespace hv
