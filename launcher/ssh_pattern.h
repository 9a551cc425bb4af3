// Small texts of ssh's configuration: patterns, words, tokens, durations. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hv::launcher {

// '*' and '?'.
bool matches_pattern(std::string_view pattern, std::string_view text);
// A list with '!' for exceptions: one pattern matches and no exception does.
bool matches_patterns(const std::vector<std::string>& patterns, std::string_view text);

std::string to_lower(std::string_view text);

struct SshLine {
  std::string keyword;  // in lower case; empty: a blank line or a comment
  std::vector<std::string> words;
};
// nullopt: a quote is not closed.
std::optional<SshLine> parse_ssh_line(std::string_view line);

// "%h" and the like by `token`, "${NAME}" by `variable`; nullopt where either knows no answer.
std::optional<std::string> expand_ssh_text(
    std::string_view text, const std::function<std::optional<std::string>(char)>& token,
    const std::function<std::optional<std::string>(const char*)>& variable);

// "10", "90s", "1m30s".
std::optional<std::chrono::seconds> parse_ssh_time(std::string_view text);

}  // namespace hv::launcher
