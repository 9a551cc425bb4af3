#include "runtime/collective/host_tree.h"

#include <algorithm>
#include <bit>

namespace hv::runtime {

void combine_hosts(const Kernel& kernel, void* dst, const void* const* src, int hosts,
                   std::size_t count, const Scale& scale) {
  if (hosts <= 3) {  // here the tree is the order from left to right
    kernel.fold(dst, src, hosts, count, scale);
    return;
  }
  // Blocks that stay in the first cache level. levels[k] holds a finished block of 2^k hosts where
  // bit k of the number of hosts seen so far is set.
  constexpr std::size_t kBlock = 256;
  constexpr int kLevels = 32;
  alignas(64) std::byte levels[kLevels][kBlock * 8];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t n = std::min(kBlock, count - at);
    for (int host = 0; host < hosts; ++host) {
      alignas(64) std::byte leaf[kBlock * 8];
      int level = 0;
      const int merges = std::countr_one(static_cast<unsigned>(host));
      std::byte* to = merges == 0 ? levels[0] : leaf;
      kernel.widen(to, static_cast<const std::byte*>(src[host]) + at * kernel.size, n);
      for (; level < merges; ++level) {
        std::byte* into = level + 1 == merges ? levels[merges] : leaf;
        kernel.combine(into, levels[level], leaf, n);
      }
    }
    // What is cut off: from the smallest block up, each becomes the right half of the next.
    const auto blocks = static_cast<unsigned>(hosts);
    int level = std::countr_zero(blocks);
    std::byte* value = levels[level];
    for (++level; level < kLevels; ++level) {
      if ((blocks >> level & 1u) == 0) continue;
      kernel.combine(value, levels[level], value, n);
    }
    kernel.finish(static_cast<std::byte*>(dst) + at * kernel.size, value, n, scale);
  }
}

}  // namespace hv::runtime
