// The project's log: leveled lines on standard error. Libraries do not log; whoever decides does,
// once. spdlog stays behind this header. The level comes from HVRUN_LOG_LEVEL (HOROVOD_LOG_LEVEL):
// trace, debug, info, warning (default), error, fatal. HVRUN_LOG_HIDE_TIME=1 leaves the time out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hv::base {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kFatal };

// The names above in either case; "warn" too.
std::optional<LogLevel> parse_log_level(std::string_view text);

// Who writes: shown in every line, for example "hvrun", "agent h1", "rank 3". Thread safe.
void set_log_name(std::string_view name);
void set_log_level(LogLevel level);
// Each line a JSON object: time, level, name, text. Once, before any thread.
void set_log_json();
bool log_is_json();
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view line);

}  // namespace hv::base
