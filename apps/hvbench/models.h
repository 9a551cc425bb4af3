// The gradients of well-known models, as their backward pass hands them in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hv::bench {

// Elements of each gradient, the last layer's first; empty for an unknown model.
std::vector<std::int64_t> gradients_of(std::string_view model);

std::vector<std::string_view> known_models();

}  // namespace hv::bench
