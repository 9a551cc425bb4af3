// The optimizers against a few steps worked out in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hv/optimizer.h"

namespace hv {
namespace {

// One parameter of two elements; step() sets its gradient first.
template <class T>
class Model {
 public:
  explicit Model(std::unique_ptr<Optimizer> optimizer) : optimizer_(std::move(optimizer)) {
    optimizer_->attach({{"w", view(value_), view(gradient_)}});
  }
  void step(double rate, std::vector<T> gradient) {
    std::copy(gradient.begin(), gradient.end(), gradient_.begin());
    optimizer_->step(rate);
  }
  T value(std::size_t i) const { return value_[i]; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  std::vector<T> value_{1, -2};
  std::vector<T> gradient_{0, 0};
  std::unique_ptr<Optimizer> optimizer_;
};

template <class T>
class Optimizers : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Optimizers, Types);

TYPED_TEST(Optimizers, PlainSgd) {
  Model<TypeParam> model(make_sgd());
  model.step(0.5, {1, 4});
  EXPECT_EQ(model.value(0), TypeParam(0.5));
  EXPECT_EQ(model.value(1), TypeParam(-4));
  EXPECT_TRUE(model.optimizer().state().empty());
}

TYPED_TEST(Optimizers, SgdWithMomentumAndDecay) {
  Model<TypeParam> model(make_sgd({.momentum = 0.5, .weight_decay = 0.25}));
  // v = 1 + 0.25 * 1 = 1.25; w = 1 - 1.25 = -0.25
  model.step(1, {1, 0});
  EXPECT_EQ(model.value(0), TypeParam(-0.25));
  // v = 0.5 * 1.25 + (2 - 0.0625) = 2.5625; w = -0.25 - 0.5 * 2.5625 = -1.53125
  model.step(0.5, {2, 0});
  EXPECT_EQ(model.value(0), TypeParam(-1.53125));
}

TYPED_TEST(Optimizers, NesterovLooksAhead) {
  Model<TypeParam> model(make_sgd({.momentum = 0.5, .nesterov = true}));
  model.step(1, {1, 0});  // v = 1, change = 1 + 0.5
  EXPECT_EQ(model.value(0), TypeParam(-0.5));
  model.step(1, {1, 0});  // v = 1.5, change = 1 + 0.75
  EXPECT_EQ(model.value(0), TypeParam(-2.25));
}

TYPED_TEST(Optimizers, Adam) {
  const AdamOptions options{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.01};
  Model<TypeParam> model(make_adam(options));
  double value = 1, first = 0, second = 0;
  for (int t = 1; t <= 5; ++t) {
    const double gradient = 0.3 * t - 0.7, rate = 0.1 / t;
    model.step(rate, {static_cast<TypeParam>(gradient), 0});
    first = 0.8 * first + 0.2 * gradient;
    second = 0.9 * second + 0.1 * gradient * gradient;
    const double m = first / (1 - std::pow(0.8, t)), v = second / (1 - std::pow(0.9, t));
    value = value * (1 - rate * 0.01) - rate * m / (std::sqrt(v) + 1e-3);
    EXPECT_NEAR(model.value(0), value, 2e-6) << "step " << t;
  }
}

// What a checkpoint restores must be all there is: copying values and state to a fresh optimizer
// makes it go on alike.
TYPED_TEST(Optimizers, TheStateIsComplete) {
  for (bool adam : {false, true}) {
    auto make = [&] { return adam ? make_adam() : make_sgd({.momentum = 0.9}); };
    Model<TypeParam> one(make()), other(make());
    for (int t = 0; t < 3; ++t) one.step(0.1, {1, static_cast<TypeParam>(t)});
    const auto from = one.optimizer().state();
    const auto to = other.optimizer().state();
    ASSERT_EQ(from.size(), to.size());
    ASSERT_FALSE(from.empty());
    for (std::size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].name, to[i].name);
      std::memcpy(to[i].tensor.data, from[i].tensor.data, from[i].tensor.bytes());
    }
    const TypeParam before[] = {one.value(0), other.value(0)};
    one.step(0.1, {1, 1});
    other.step(0.1, {1, 1});
    EXPECT_NEAR(one.value(0) - before[0], other.value(0) - before[1], 1e-6);
  }
}

}  // namespace
}  // namespace hv
