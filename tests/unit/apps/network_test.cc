#include "apps/train/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hv::train {
namespace {

constexpr std::array kWidths{5, 7, 6, 3};

struct Batch {
  Matrix inputs;
  std::vector<int> labels;
};

Batch make_batch(int rows) {
  std::mt19937 random(1);
  Batch batch{Matrix(rows, kWidths.front()), {}};
  for (float& value : batch.inputs.reshaped()) value = static_cast<float>(random() % 1000) / 1000;
  for (int i = 0; i < rows; ++i) batch.labels.push_back(static_cast<int>(random() % 3));
  return batch;
}

void ignore(const std::string&) {}

// Every gradient against the slope of the loss, by central differences.
TEST(Network, GradientsAreTheSlopesOfTheLoss) {
  Network network(kWidths, 3);
  const Batch batch = make_batch(9);
  network.backward(batch.inputs, batch.labels, ignore);
  constexpr float kStep = 1e-2f;
  for (Layer& layer : network.layers()) {
    for (auto [value, gradient] : {std::pair{&layer.weight, &layer.weight_gradient},
                                   std::pair{&layer.bias, &layer.bias_gradient}}) {
      for (Eigen::Index i = 0; i < value->size(); ++i) {
        float& at = value->data()[i];
        const float before = at;
        at = before + kStep;
        const double above = network.evaluate(batch.inputs, batch.labels).loss;
        at = before - kStep;
        const double below = network.evaluate(batch.inputs, batch.labels).loss;
        at = before;
        const double slope = (above - below) / (2 * static_cast<double>(kStep));
        ASSERT_NEAR(gradient->data()[i], slope, 2e-3 * std::max(1.0, std::abs(slope)))
            << layer.name << " element " << i;
      }
    }
  }
}

TEST(Network, HandsGradientsInFromTheLastLayerToTheFirst) {
  Network network(kWidths, 3);
  const Batch batch = make_batch(4);
  std::vector<std::string> names;
  network.backward(batch.inputs, batch.labels, [&](const auto& name) { names.push_back(name); });
  EXPECT_THAT(names, testing::ElementsAre("fc3.bias", "fc3.weight", "fc2.bias", "fc2.weight",
                                          "fc1.bias", "fc1.weight"));
}

// Once handed in, a gradient belongs to the optimizer until the step.
TEST(Network, LeavesGradientsAloneOnceTheyAreHandedIn) {
  Network network(kWidths, 3);
  const Batch batch = make_batch(4);
  Matrix handed_in;
  network.backward(batch.inputs, batch.labels, [&](const std::string& name) {
    if (name == "fc3.weight") handed_in = network.layers()[2].weight_gradient;
  });
  EXPECT_EQ(handed_in, network.layers()[2].weight_gradient);
}

TEST(Network, GradientsOfABatchAreTheSumsOfItsParts) {
  Network whole(kWidths, 3), parts(kWidths, 3);
  const Batch batch = make_batch(8);
  const Score score = whole.backward(batch.inputs, batch.labels, ignore);
  Score sum;
  Matrix gradient = Matrix::Zero(kWidths[0], kWidths[1]);
  for (int from : {0, 3}) {
    const int rows = from == 0 ? 3 : 5;
    const auto labels =
        std::span(batch.labels)
            .subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(rows));
    const Score part = parts.backward(batch.inputs.middleRows(from, rows), labels, ignore);
    sum.loss += part.loss;
    sum.correct += part.correct;
    sum.rows += part.rows;
    gradient += parts.layers()[0].weight_gradient;
  }
  EXPECT_NEAR(sum.loss, score.loss, 1e-5);
  EXPECT_EQ(sum.correct, score.correct);
  EXPECT_EQ(sum.rows, 8);
  EXPECT_TRUE(gradient.isApprox(whole.layers()[0].weight_gradient, 1e-5f));
}

TEST(Network, TheSeedDecidesTheWeights) {
  Network one(kWidths, 3), same(kWidths, 3), other(kWidths, 4);
  EXPECT_EQ(one.layers()[0].weight, same.layers()[0].weight);
  EXPECT_NE(one.layers()[0].weight, other.layers()[0].weight);
}

TEST(Network, NoRowsScoreNothing) {
  const Network network(kWidths, 3);
  const Score score = network.evaluate(Matrix(0, kWidths[0]), {});
  EXPECT_EQ(score.loss, 0);
  EXPECT_EQ(score.rows, 0);
}

TEST(Network, StaysFiniteOnExtremeScores) {
  Network network(kWidths, 3);
  network.layers().back().weight *= 1e4f;
  const Batch batch = make_batch(6);
  const Score score = network.backward(batch.inputs, batch.labels, ignore);
  EXPECT_TRUE(std::isfinite(score.loss));
  EXPECT_TRUE(network.layers()[0].weight_gradient.allFinite());
}

}  // namespace
}  // namespace hv::train
