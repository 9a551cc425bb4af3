// The one tree in which the results of the hosts are combined: blocks of 2^k hosts, aligned, the
// last one cut off at the number of hosts; a block is its left half, combined with its right half
// if there is one. Recursive doubling, halving and binomial trees follow it by themselves; whoever
// has all leaves calls combine_hosts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/collective/reduce.h"

namespace hv::runtime {

// dst = finish(tree of src[0..hosts)): elements of the type itself, computed wide.
void combine_hosts(const Kernel& kernel, void* dst, const void* const* src, int hosts,
                   std::size_t count, const Scale& scale);

}  // namespace hv::runtime
