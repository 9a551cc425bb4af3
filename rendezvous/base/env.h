// Reading the environment: once, at the edge, into values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace hv::base {

std::optional<std::string> env(const char* name);

// HVRUN_<name>, or HOROVOD_<name> where the first is unset.
std::optional<std::string> env_knob(std::string_view name);

// A whole number in [low, high]; anything else is kUsage naming variable, value and range.
Result<std::int64_t> env_int(const char* name, std::int64_t fallback, std::int64_t low,
                             std::int64_t high);

}  // namespace hv::base
