#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>

// The address and thread sanitizers have it: freed blocks, which they keep to find later uses, and
// their own tables do not count.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace hv::tests {

// What this process uses, in KiB: what is resident, or under a sanitizer what is allocated.
inline std::size_t memory_in_use_kib() {
  if (&__sanitizer_get_current_allocated_bytes != nullptr) {
    return __sanitizer_get_current_allocated_bytes() / 1024;
  }
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * (static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024);
}

}  // namespace hv::tests
