#define SPDLOG_LEVEL_NAMES \
  { "trace", "debug", "info", "warning", "error", "fatal", "off" }

#include "rendezvous/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <string>

#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"

namespace hv::base {

namespace {

bool g_json = false;

std::string json_escaped(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string safe;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      safe += std::string("\\") + c;
    } else if (byte < 0x20) {
      safe += std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      safe += c;
    }
  }
  return safe;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kFatal:
      return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

void set_pattern(spdlog::logger& logger, std::string_view name) {
  std::string pattern = env_knob("LOG_HIDE_TIME").value_or("0") == "0" ? "%H:%M:%S.%e " : "";
  for (char c : name) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  logger.set_pattern(pattern + (name.empty() ? "%l: %v" : " %l: %v"));
}

// Lives until the process ends: threads and static destructors may log to the last moment.
spdlog::logger& logger() {
  static spdlog::logger& instance = [&]() -> spdlog::logger& {
    auto* made = new spdlog::logger("hv", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    set_pattern(*made, {});
    std::string wanted = env_knob("LOG_LEVEL").value_or("warning");
    auto level = parse_log_level(wanted);
    made->set_level(to_spdlog(level.value_or(LogLevel::kWarning)));
    if (!level) {
      made->warn("no log level is called '{}'; there are trace, debug, info, warning, error, fatal",
                 wanted);
    }
    return *made;
  }();
  return instance;
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  std::string lower(trim(text));
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "trace") return LogLevel::kTrace;
  if (lower == "debug") return LogLevel::kDebug;
  if (lower == "info") return LogLevel::kInfo;
  if (lower == "warning" || lower == "warn") return LogLevel::kWarning;
  if (lower == "error") return LogLevel::kError;
  if (lower == "fatal") return LogLevel::kFatal;
  return std::nullopt;
}

void set_log_name(std::string_view name) {
  if (!log_is_json()) return set_pattern(logger(), name);
  std::string pattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","name":")";
  for (char c : json_escaped(name)) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  logger().set_pattern(pattern + R"(","text":"%v"})");
}

void set_log_json() { g_json = true; }
bool log_is_json() { return g_json; }

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log(LogLevel level, std::string_view line) {
  std::string escaped;
  if (log_is_json()) line = escaped = json_escaped(line);
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hv::base
