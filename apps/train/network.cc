#include "apps/train/network.h"

#include <cmath>
#include <random>

namespace hv::train {
namespace {

// Uniform in [-limit, limit); the standard fixes the engine's numbers but no distribution's.
void fill_uniform(Matrix& matrix, float limit, std::mt19937& random) {
  for (float& value : matrix.reshaped<Eigen::RowMajor>()) {
    value = limit * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
  }
}

// Rows of scores into probabilities.
Matrix softmax(const Matrix& scores) {
  Matrix e = (scores.colwise() - scores.rowwise().maxCoeff()).array().exp();
  return e.array().colwise() / e.rowwise().sum().array();
}

Score score(const Matrix& probabilities, std::span<const int> labels) {
  Score sum;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = probabilities.row(static_cast<Eigen::Index>(i));
    Eigen::Index best = 0;
    row.maxCoeff(&best);
    sum.correct += best == labels[i];
    sum.loss -= std::log(std::max(static_cast<double>(row[labels[i]]), 1e-30));
  }
  sum.rows = static_cast<double>(labels.size());
  return sum;
}

}  // namespace

Network::Network(std::span<const int> widths, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed ^ (seed >> 32)));
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const int in = widths[i], out = widths[i + 1];
    Layer layer{"fc" + std::to_string(i + 1), Matrix(in, out), Matrix::Zero(in, out),
                Matrix::Zero(1, out), Matrix::Zero(1, out)};
    fill_uniform(layer.weight, std::sqrt(6.0f / static_cast<float>(in + out)), random);
    layers_.push_back(std::move(layer));
  }
}

// The output of every layer; the last one's are probabilities.
std::vector<Matrix> Network::forward(const Matrix& inputs) const {
  std::vector<Matrix> outputs;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Matrix& in = i == 0 ? inputs : outputs.back();
    Matrix sum = in * layers_[i].weight;
    sum.rowwise() += layers_[i].bias.row(0);
    outputs.push_back(i + 1 == layers_.size() ? softmax(sum) : Matrix(sum.array().tanh()));
  }
  return outputs;
}

Score Network::evaluate(const Matrix& inputs, std::span<const int> labels) const {
  if (labels.empty()) return {};
  return score(forward(inputs).back(), labels);
}

Score Network::backward(const Matrix& inputs, std::span<const int> labels, const Ready& ready) {
  const auto outputs = forward(inputs);
  Matrix delta = outputs.back();  // of the loss with respect to a layer's sums
  for (std::size_t i = 0; i < labels.size(); ++i) {
    delta(static_cast<Eigen::Index>(i), labels[i]) -= 1.0f;
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    const Matrix& in = i == 0 ? inputs : outputs[i - 1];
    layer.bias_gradient = delta.colwise().sum();
    ready(layer.name + ".bias");
    layer.weight_gradient.noalias() = in.transpose() * delta;
    ready(layer.name + ".weight");
    if (i > 0) {
      delta = (delta * layer.weight.transpose()).array() * (1.0f - in.array().square());
    }
  }
  return score(outputs.back(), labels);
}

}  // namespace hv::train
