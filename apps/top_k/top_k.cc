#include "apps/top_k/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace hv::examples {
namespace {

// Of the `count` entries with the largest magnitudes, in ascending order.
std::vector<std::int32_t> largest(std::span<const float> values, std::size_t count) {
  std::vector<std::int32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  const auto cut = indices.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(indices.begin(), cut, indices.end(), [&](std::int32_t a, std::int32_t b) {
    const float of_a = std::abs(values[a]), of_b = std::abs(values[b]);
    return of_a != of_b ? of_a > of_b : a < b;  // the same choice in every run
  });
  indices.erase(cut, indices.end());
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace

TopK::TopK(World world, double fraction, Feedback feedback)
    : world_(std::move(world)), fraction_(fraction), feedback_(feedback) {
  if (!(fraction > 0 && fraction <= 1)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "top-k: the fraction must be above 0 and at most 1, not " + std::to_string(fraction));
  }
}

void TopK::average(const std::string& name, std::span<float> gradient) {
  auto& unsent = unsent_[name];
  unsent.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) unsent[i] += gradient[i];

  const double wanted = std::ceil(fraction_ * static_cast<double>(gradient.size()));
  auto indices = largest(unsent, std::min(static_cast<std::size_t>(wanted), gradient.size()));
  std::vector<float> values;
  for (const auto index : indices) values.push_back(std::exchange(unsent[index], 0.0f));
  if (feedback_ == Feedback::kOff) std::fill(unsent.begin(), unsent.end(), 0.0f);
  bytes_sent_ += indices.size() * (sizeof(std::int32_t) + sizeof(float));

  Handle handle = world_.sparse_allreduce(name, view(indices), view(values), ReduceOp::kAverage);
  handle.wait();
  const auto* from = static_cast<const std::int32_t*>(handle.output(0).data);
  const auto* what = static_cast<const float*>(handle.output(1).data);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (std::int64_t i = 0; i < handle.output(0).count(); ++i) gradient[from[i]] += what[i];
}

}  // namespace hv::examples
