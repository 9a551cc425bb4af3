// ProcessSet: some of a world's ranks, with collectives of their own.
#pragma once

#include <vector>

#include "hv/collectives.h"

namespace hv {

// A value. Operations of different sets do not wait for each other and may use the same names. A
// rank that is not in the set has the object too, but every operation on it throws
// kInvalidArgument, as it does once the set has been removed. A rank that shuts its world down ends
// all of its sets.
class HV_API ProcessSet : public Collectives {
 public:
  ProcessSet() = default;                 // no set: every operation throws
  int id() const;                         // 0: all ranks of the world
  const std::vector<int>& ranks() const;  // of the world, ascending
  int size() const;
  int rank() const;  // of this process within the set; -1 if it is not included
  bool included() const;

 private:
  friend class World;
  friend class runtime::WorldImpl;
  using Collectives::Collectives;
};

}  // namespace hv
