#include "launcher/ssh_pattern.h"

#include <algorithm>
#include <cctype>

#include "rendezvous/base/text.h"

namespace hv::launcher {

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = pattern.npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool matches_patterns(const std::vector<std::string>& patterns, std::string_view text) {
  bool found = false;
  for (std::string_view pattern : patterns) {
    bool exception = !pattern.empty() && pattern.front() == '!';
    if (!matches_pattern(exception ? pattern.substr(1) : pattern, text)) continue;
    if (exception) return false;
    found = true;
  }
  return found;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::optional<SshLine> parse_ssh_line(std::string_view line) {
  constexpr std::string_view kGaps = " \t\r\f";
  line = base::trim(line);
  if (line.empty() || line.front() == '#') return SshLine{};
  auto end = std::min(line.find_first_of(" \t="), line.size());
  SshLine parsed;
  parsed.keyword = to_lower(line.substr(0, end));
  line = base::trim(line.substr(end));
  if (!line.empty() && line.front() == '=') line = base::trim(line.substr(1));

  while (!line.empty() && line.front() != '#') {
    std::string word;
    bool quoted = false;
    std::size_t i = 0;
    for (; i < line.size() && (quoted || kGaps.find(line[i]) == kGaps.npos); ++i) {
      if (line[i] == '"') {
        quoted = !quoted;
      } else if (line[i] == '\\' && i + 1 < line.size() &&
                 (line[i + 1] == '"' || line[i + 1] == '\\')) {
        word += line[++i];
      } else {
        word += line[i];
      }
    }
    if (quoted) return std::nullopt;
    parsed.words.push_back(std::move(word));
    line = base::trim(line.substr(i));
  }
  return parsed;
}

std::optional<std::string> expand_ssh_text(
    std::string_view text, const std::function<std::optional<std::string>(char)>& token,
    const std::function<std::optional<std::string>(const char*)>& variable) {
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 1 < text.size()) {
      auto value = text[++i] == '%' ? std::optional<std::string>("%") : token(text[i]);
      if (!value) return std::nullopt;
      expanded += *value;
    } else if (text.substr(i, 2) == "${") {
      auto end = text.find('}', i);
      if (end == text.npos) return std::nullopt;
      auto value = variable(std::string(text.substr(i + 2, end - i - 2)).c_str());
      if (!value) return std::nullopt;
      expanded += *value;
      i = end;
    } else {
      expanded += text[i];
    }
  }
  return expanded;
}

std::optional<std::chrono::seconds> parse_ssh_time(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
    auto number = base::parse_int(text.substr(0, digits));
    if (!number || *number > 1'000'000) return std::nullopt;
    text.remove_prefix(digits);
    std::int64_t unit = 1;
    if (!text.empty()) {
      constexpr std::string_view kUnits = "smhdw";
      constexpr std::int64_t kSeconds[] = {1, 60, 3600, 86400, 604800};
      auto which = kUnits.find(static_cast<char>(std::tolower(text.front())));
      if (which == kUnits.npos) return std::nullopt;
      unit = kSeconds[which];
      text.remove_prefix(1);
    }
    total += *number * unit;
  }
  return std::chrono::seconds(total);
}

}  // namespace hv::launcher
