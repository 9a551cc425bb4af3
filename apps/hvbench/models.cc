#include "apps/hvbench/models.h"

#include <algorithm>

namespace hv::bench {
namespace {

// A convolution without bias, and the scale and shift of the batch norm behind it.
void add_convolution(std::vector<std::int64_t>& sizes, std::int64_t in, std::int64_t out,
                     std::int64_t kernel) {
  for (std::int64_t size : {in * out * kernel * kernel, out, out}) sizes.push_back(size);
}

// ResNet-50 (He et al. 2015) for 1,000 classes: 161 gradients, 25,557,032 elements.
std::vector<std::int64_t> resnet50() {
  struct Stage {
    int blocks;
    std::int64_t width;
  };
  constexpr Stage kStages[] = {{3, 64}, {4, 128}, {6, 256}, {3, 512}};
  constexpr std::int64_t kExpansion = 4, kClasses = 1000;
  std::vector<std::int64_t> sizes;
  add_convolution(sizes, 3, 64, 7);
  std::int64_t in = 64;
  for (const auto& [blocks, width] : kStages) {
    const std::int64_t out = width * kExpansion;
    for (int block = 0; block < blocks; ++block) {
      add_convolution(sizes, in, width, 1);
      add_convolution(sizes, width, width, 3);
      add_convolution(sizes, width, out, 1);
      if (block == 0) add_convolution(sizes, in, out, 1);  // the shortcut's projection
      in = out;
    }
  }
  for (std::int64_t size : {in * kClasses, kClasses}) sizes.push_back(size);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

// GPT-2 small (Radford et al. 2019): 148 gradients, 124,439,808 elements.
std::vector<std::int64_t> gpt2() {
  constexpr std::int64_t kWords = 50257, kPositions = 1024, kWidth = 768, kLayers = 12;
  std::vector<std::int64_t> sizes{kWords * kWidth, kPositions * kWidth};
  const auto add_linear = [&](std::int64_t in, std::int64_t out) {
    for (std::int64_t size : {in * out, out}) sizes.push_back(size);
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    add_linear(1, kWidth);  // scale and shift before the attention
    add_linear(kWidth, 3 * kWidth);
    add_linear(kWidth, kWidth);
    add_linear(1, kWidth);  // and before the two layers behind it
    add_linear(kWidth, 4 * kWidth);
    add_linear(4 * kWidth, kWidth);
  }
  add_linear(1, kWidth);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

std::vector<std::int64_t> gradients_of(std::string_view model) {
  if (model == "resnet50") return resnet50();
  if (model == "gpt2") return gpt2();
  return {};
}

std::vector<std::string_view> known_models() { return {"resnet50", "gpt2"}; }

}  // namespace hv::bench
