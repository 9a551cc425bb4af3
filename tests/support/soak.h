// Whether the full counts are asked for: HV_SOAK=1, as scripts/test --soak sets it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace hv::tests {

inline bool soak() {
  const char* value = std::getenv("HV_SOAK");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace hv::tests
