// A small fully connected network with its own backward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train/matrix.h"

namespace hv::train {

// Sums over rows, in double so that they hardly depend on how rows are split.
struct Score {
  double loss = 0;
  double correct = 0;
  double rows = 0;
};

// One layer: output = input * weight + bias. Gradients are sums over rows.
struct Layer {
  std::string name;
  Matrix weight, weight_gradient;  // inputs × outputs
  Matrix bias, bias_gradient;      // 1 × outputs
};

// Purpose: tanh layers and a softmax at the end, cross-entropy loss; smooth, so that rounding stays
// rounding over a whole training. Thread: the caller's. Owns values and gradients at fixed
// addresses. Cannot fail on rows of the right width.
class Network {
 public:
  Network(std::span<const int> widths, std::uint64_t seed);

  std::vector<Layer>& layers() { return layers_; }

  Score evaluate(const Matrix& inputs, std::span<const int> labels) const;

  // Computes all gradients, from the last layer to the first, and names each as soon as it is
  // complete: "fc3.bias", "fc3.weight", "fc2.bias", ….
  using Ready = std::function<void(const std::string& name)>;
  Score backward(const Matrix& inputs, std::span<const int> labels, const Ready& ready);

 private:
  std::vector<Matrix> forward(const Matrix& inputs) const;

  std::vector<Layer> layers_;
};

}  // namespace hv::train
