#include "apps/hvbench/sizes.h"

#include <algorithm>
#include <charconv>

namespace hv::bench {

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (!suffix.empty()) {
    constexpr std::string_view kUnits = "KMGT";
    const auto unit = kUnits.find(suffix.front() & ~0x20);  // upper case
    if (unit == std::string_view::npos) return std::nullopt;
    suffix.remove_prefix(1);
    if (!suffix.empty() && suffix != "iB" && suffix != "B") return std::nullopt;
    shift = 10 * static_cast<int>(unit + 1);
  }
  if (number > (std::int64_t{1} << 62) >> shift) return std::nullopt;
  return number << shift;
}

std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high, std::int64_t factor) {
  std::vector<std::int64_t> steps;
  if (low == 0) steps.push_back(0);
  for (std::int64_t at = std::max<std::int64_t>(low, 1); at <= high; at *= factor) {
    steps.push_back(at);
    if (at > high / factor) break;
  }
  return steps;
}

}  // namespace hv::bench
