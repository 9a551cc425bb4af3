#include "launcher/report.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace {

std::string seconds(base::Millis time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 12;
  if (names.size() <= kShown) return base::join(names, ", ");
  std::vector<std::string> first(names.begin(), names.begin() + kShown);
  return base::join(first, ", ") + " … and " + std::to_string(names.size() - kShown) + " more";
}

std::string indented(const std::string& text) {
  std::string result;
  for (auto line : base::split(text, '\n')) {
    result += "  ";
    result += line;
    result += '\n';
  }
  return result;
}

std::string describe_rank(const Cause& cause) {
  std::string text = "rank " + std::to_string(cause.rank) + " on " + cause.host;
  if (cause.pid != 0) text += " (pid " + std::to_string(cause.pid) + ")";
  text += " " + cause.text + " after " + seconds(cause.after);
  return text;
}

std::string how_it_ended(const rendezvous::RankExited& exited) {
  if (!exited.exec_error.empty()) return "could not be started: " + exited.exec_error + ";";
  if (exited.signal == 0) return "exited with code " + std::to_string(exited.exit_code);
  std::string text = "was killed by signal " + std::to_string(exited.signal) + " (" +
                     signal_name(exited.signal) + ")";
  if (exited.oom_killed) text += ", out of memory,";
  if (exited.core_dumped) {
    text += exited.core.empty() ? ", core dumped," : ", core dumped to " + exited.core + ",";
  }
  return text;
}

}  // namespace

int exit_code_of(const rendezvous::RankExited& exited) {
  return exited.signal != 0 ? 128 + exited.signal : exited.exit_code;
}

Cause make_exit_cause(const rendezvous::RankExited& exited, const std::string& host,
                      base::Millis after) {
  Cause cause;
  cause.kind = Cause::Kind::kRank;
  cause.exit_code = exit_code_of(exited);
  cause.text = how_it_ended(exited);
  cause.rank = exited.rank;
  cause.host = host;
  cause.pid = exited.pid;
  cause.after = after;
  cause.last_lines = exited.last_lines;
  return cause;
}

std::string format_cause(const Cause& cause, int consequences, const std::string& operations) {
  std::string block;
  switch (cause.kind) {
    case Cause::Kind::kRank:
      block += describe_rank(cause) + "\n";
      break;
    case Cause::Kind::kHost:
      block += cause.text + ", " + seconds(cause.after) + " after the start\n";
      break;
    case Cause::Kind::kStart:
    case Cause::Kind::kInterrupt:
    case Cause::Kind::kStalled:
    case Cause::Kind::kPreempted:
      block += cause.text + "\n";
      break;
  }
  if (!operations.empty()) block += indented(operations);
  if (!cause.last_lines.empty()) {
    block += "  its last lines:\n";
    for (const auto& line : cause.last_lines) block += "  | " + line + "\n";
  }
  if (consequences > 0) {
    block += "  " + std::to_string(consequences) +
             (cause.kind == Cause::Kind::kStalled ? " rank" : " other rank") +
             (consequences == 1 ? "" : "s") + " ended because of this\n";
  }
  block.pop_back();
  return block;
}

std::string format_host_errors(const std::vector<HostError>& errors, std::size_t hosts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [host, error] : errors) {
    auto same = std::ranges::find(groups, error.text, [](const auto& g) { return g.first; });
    if (same == groups.end()) {
      groups.push_back({error.text, {host}});
    } else {
      same->second.push_back(host);
    }
  }
  std::string block = "the job was not started";
  if (hosts > 1) {
    std::vector<std::string> bad;
    for (const auto& [host, error] : errors) {
      if (std::ranges::find(bad, host) == bad.end()) bad.push_back(host);
    }
    block += ": " + std::to_string(bad.size()) + " of " + std::to_string(hosts) + " hosts failed";
  }
  block += "\n";
  for (const auto& [text, names] : groups) {
    block += "  " + list_some(names);
    if (names.size() > 1) block += " (" + std::to_string(names.size()) + " hosts)";
    block += ": " + indented(text).substr(2);
  }
  while (block.ends_with('\n') || block.ends_with(' ')) block.pop_back();
  return block;
}

int parse_signal(std::string_view name) {
  if (auto number = base::parse_int(name)) {
    return *number > 0 && *number < NSIG ? static_cast<int>(*number) : 0;
  }
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  return 0;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

}  // namespace hv::launcher
