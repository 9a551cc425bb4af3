// Small text helpers that several layers need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hv::base {

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// 'text', for messages.
std::string quoted(std::string_view text);

// Decimal digits only, the whole text, in range; nullopt otherwise.
std::optional<std::int64_t> parse_int(std::string_view text);

// "0-3,7": sorted ranks as ranges, for messages.
std::string ranges(std::vector<int> numbers);

// The candidate closest to `word` by edit distance, if it is close enough to be what was meant.
std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// 1536 -> "1.5 KiB".
std::string human_bytes(std::uint64_t bytes);

}  // namespace hv::base
