// Which ready operations become one batch. Pure and deterministic: only the coordinator asks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/negotiation.h"

namespace hv::runtime {

struct FuseItem {
  const Signature* signature;
  std::size_t bytes;  // of the result
};

// Groups of indices into `items`. Looks ahead over items that do not fit: each goes into the first
// batch of its kind, dtype, reduction, scales, root, device, set and group that has room for it, so
// batches are ordered by their first item. Alltoalls run alone. `limit` 0 leaves every item alone;
// a larger item runs alone.
std::vector<std::vector<std::size_t>> fuse(std::span<const FuseItem> items, std::size_t limit);

}  // namespace hv::runtime
