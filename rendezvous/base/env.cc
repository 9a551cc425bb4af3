#include "rendezvous/base/env.h"

#include <cstdlib>

#include "rendezvous/base/text.h"

namespace hv::base {

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<std::string> env_knob(std::string_view name) {
  if (auto ours = env(("HVRUN_" + std::string(name)).c_str())) return ours;
  return env(("HOROVOD_" + std::string(name)).c_str());
}

Result<std::int64_t> env_int(const char* name, std::int64_t fallback, std::int64_t low,
                             std::int64_t high) {
  auto text = env(name);
  if (!text) return fallback;
  auto value = parse_int(trim(*text));
  if (value && *value >= low && *value <= high) return *value;
  return fail(Code::kUsage, std::string(name) + "=" + *text + " is not a whole number from " +
                                std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace hv::base
