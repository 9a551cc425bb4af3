#include "launcher/slurm_nodes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "rendezvous/base/text.h"

namespace hv::launcher {

using base::Code;
using base::fail;
using base::Result;

namespace {

constexpr std::int64_t kMaxRange = 64 * 1024;         // as Slurm
constexpr std::size_t kMaxNodes = 1024 * 1024;        // of one list
constexpr std::size_t kMaxBrackets = 16;              // in one name
constexpr std::string_view kSeparators = ", \t\r\n";  // between names

// The whole text, so that an error can point into it.
struct Source {
  std::string_view text;
  std::string_view name;

  tl::unexpected<base::Error> wrong(std::size_t at, const std::string& what) const {
    constexpr std::size_t kBefore = 40, kShown = 72;
    std::size_t begin = at > kBefore ? at - kBefore : 0;
    std::string line(text.substr(begin, kShown));
    for (auto& c : line) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    return fail(Code::kUsage, std::string(name) + ": " + what + " at character " +
                                  std::to_string(at + 1) + "\n  " + line + "\n  " +
                                  std::string(at - begin, ' ') + "^");
  }
};

struct Range {
  std::int64_t low = 0, high = 0;
  std::size_t width = 0;  // digits of the first number as written: "001" pads to three

  std::string spell(std::int64_t number) const {
    std::string digits = std::to_string(number);
    if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
    return digits;
  }
};

// prefix [ranges] text [ranges] text …: one name with brackets.
struct Pattern {
  std::string prefix;
  struct Bracket {
    std::vector<Range> ranges;
    std::string after;
  };
  std::vector<Bracket> brackets;
};

Result<Range> parse_range(const Source& source, std::size_t at, std::string_view word) {
  auto dash = word.find('-');
  auto first = word.substr(0, dash);
  auto low = base::parse_int(first);
  if (!low) {
    return source.wrong(
        at, first.empty() ? "a number is missing" : base::quoted(first) + " is not a number");
  }
  Range range{*low, *low, first.size()};
  if (dash == word.npos) return range;
  auto last = word.substr(dash + 1);
  auto high = base::parse_int(last);
  if (!high) {
    return source.wrong(at + dash + 1, last.empty() ? "a number is missing"
                                                    : base::quoted(last) + " is not a number");
  }
  range.high = *high;
  if (range.high < range.low) return source.wrong(at, base::quoted(word) + " runs backwards");
  if (range.high - range.low >= kMaxRange) {
    return source.wrong(at, base::quoted(word) + " has more than 65536 nodes");
  }
  return range;
}

Result<std::vector<Range>> parse_ranges(const Source& source, std::size_t at,
                                        std::string_view inside) {
  std::vector<Range> ranges;
  for (auto word : base::split(inside, ',')) {
    auto range = parse_range(source, at, word);
    if (!range) return tl::unexpected(range.error());
    ranges.push_back(*range);
    at += word.size() + 1;
  }
  return ranges;
}

// One name, from source.text[at] on. `end` is past its last character.
struct Parsed {
  Pattern pattern;
  std::size_t end = 0;
};

Result<Parsed> parse_pattern(const Source& source, std::size_t at) {
  Parsed parsed;
  for (;;) {
    std::size_t stop = std::min(source.text.find_first_of("[], \t\r\n", at), source.text.size());
    auto plain = source.text.substr(at, stop - at);
    auto& brackets = parsed.pattern.brackets;
    (brackets.empty() ? parsed.pattern.prefix : brackets.back().after) = plain;
    parsed.end = stop;
    if (stop == source.text.size() || kSeparators.find(source.text[stop]) != kSeparators.npos) {
      return parsed;
    }
    if (source.text[stop] == ']') return source.wrong(stop, "']' without '['");
    auto close = source.text.find_first_of("[]", stop + 1);
    if (close == source.text.npos) return source.wrong(stop, "'[' without ']'");
    if (source.text[close] == '[') return source.wrong(close, "'[' inside of brackets");
    if (brackets.size() == kMaxBrackets) return source.wrong(stop, "too many brackets");
    auto ranges = parse_ranges(source, stop + 1, source.text.substr(stop + 1, close - stop - 1));
    if (!ranges) return tl::unexpected(ranges.error());
    brackets.push_back({std::move(*ranges), {}});
    at = close + 1;
  }
}

double count_names(const Pattern& pattern) {
  double count = 1;
  for (const auto& bracket : pattern.brackets) {
    double here = 0;
    for (const auto& range : bracket.ranges)
      here += static_cast<double>(range.high - range.low + 1);
    count *= here;
  }
  return count;
}

// Every combination. Slurm turns the last bracket fastest, then the first, the second, and so on.
std::vector<std::string> expand(const Pattern& pattern) {
  std::vector<std::string> names;
  auto count = pattern.brackets.size();
  std::vector<std::vector<std::string>> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& range : pattern.brackets[i].ranges) {
      for (auto n = range.low; n <= range.high; ++n) numbers[i].push_back(range.spell(n));
    }
  }
  std::vector<std::size_t> order;  // fastest first
  if (count > 0) order.push_back(count - 1);
  for (std::size_t i = 0; i + 1 < count; ++i) order.push_back(i);

  std::vector<std::size_t> at(count, 0);
  for (;;) {
    std::string name = pattern.prefix;
    for (std::size_t i = 0; i < count; ++i) {
      name += numbers[i][at[i]];
      name += pattern.brackets[i].after;
    }
    names.push_back(std::move(name));
    auto turned = std::ranges::find_if(order, [&](std::size_t i) {
      at[i] = (at[i] + 1) % numbers[i].size();
      return at[i] != 0;  // no carry
    });
    if (turned == order.end()) return names;
  }
}

}  // namespace

Result<std::vector<std::string>> expand_node_list(std::string_view text, std::string_view name) {
  Source source{text, name};
  std::vector<std::string> names;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kSeparators, at)) != text.npos) {
    auto parsed = parse_pattern(source, at);
    if (!parsed) return tl::unexpected(parsed.error());
    if (static_cast<double>(names.size()) + count_names(parsed->pattern) >
        static_cast<double>(kMaxNodes)) {
      return source.wrong(at, "more than 1048576 nodes");
    }
    std::ranges::move(expand(parsed->pattern), std::back_inserter(names));
    at = parsed->end;
  }
  return names;
}

Result<std::vector<int>> expand_counts(std::string_view text, std::string_view name) {
  Source source{text, name};
  constexpr std::int64_t kMaxCount = 1 << 20;
  std::vector<int> counts;
  std::size_t at = 0;
  for (auto word : base::split(text, ',')) {
    auto open = word.find('(');
    auto count = base::parse_int(word.substr(0, open));
    if (!count || *count < 1 || *count > kMaxCount) {
      return source.wrong(at, base::quoted(word.substr(0, open)) + " is not a count");
    }
    std::int64_t times = 1;
    if (open != word.npos) {
      auto repeat = word.substr(open);
      bool whole = repeat.size() > 3 && repeat.starts_with("(x") && repeat.ends_with(')');
      auto number = whole ? base::parse_int(repeat.substr(2, repeat.size() - 3)) : std::nullopt;
      if (!number || *number < 1) {
        return source.wrong(at + open, base::quoted(repeat) + " is not a repeat like (x3)");
      }
      times = *number;
    }
    if (times > static_cast<std::int64_t>(kMaxNodes - counts.size())) {
      return source.wrong(at, "more than 1048576 nodes");
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(*count));
    at += word.size() + 1;
  }
  return counts;
}

}  // namespace hv::launcher
