// Sizes as people write them, and the ladder of sizes that a benchmark climbs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hv::bench {

// "8", "64K", "64KiB", "1G": binary multiples. Nothing else, and nothing above 2^62.
std::optional<std::int64_t> parse_size(std::string_view text);

// low, low * factor, … up to high. Needs 0 < low <= high and factor > 1; a low of 0 is a step of
// its own before 1.
std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high, std::int64_t factor);

}  // namespace hv::bench
