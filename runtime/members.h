// Members: a process set as the objects of one rank's user know it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace hv::runtime {

struct Members {
  std::int32_t set = 0;
  std::vector<int> ranks;  // of the world, ascending
  int index = 0;           // of this rank among them; -1: not included
  mutable std::atomic<bool> removed{false};

  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace hv::runtime
