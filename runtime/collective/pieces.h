// How a rank's blocks for the others lie in a concatenation: in pieces, one after the other for
// each rank in turn, so that every chunk has work for everybody.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/collective/select.h"
#include "runtime/collective/work.h"
#include "runtime/topology.h"

namespace hv::runtime {

// Calls each(range in the concatenation, index of the block, offset in the block), ascending.
template <class Each>
void for_each_piece(std::span<const std::size_t> block_bytes, std::size_t width, Each each) {
  std::size_t at = 0;
  bool more = true;
  for (std::size_t offset = 0; more; offset += width) {
    more = false;
    for (std::size_t i = 0; i < block_bytes.size(); ++i) {
      if (offset >= block_bytes[i]) continue;
      const std::size_t bytes = std::min(width, block_bytes[i] - offset);
      each(Range{at, at + bytes}, i, offset);
      at += bytes;
      more = more || offset + width < block_bytes[i];
    }
  }
}
std::size_t piece_width(const Plan& plan, int ranks);

// Adds a tensor to an allgather: block_bytes[i] from rank number i of the topology, one after the
// other in `out`; this rank's are at `in`.
void add_allgather(Work& work, const Topology& topology, std::span<const std::size_t> block_bytes,
                   std::byte* in, std::byte* out);

// Adds a tensor to a reducescatter: block_bytes[i] of `in` for rank number i of the topology, one
// after the other; what is this rank's goes to `out`.
void add_reducescatter(Work& work, const Topology& topology, std::size_t width,
                       std::span<const std::size_t> block_bytes, std::byte* in, std::byte* out);

// Makes the whole of an alltoall: block_bytes[from * size + to]. `in` holds this rank's blocks in
// order of rank, `out` gets those for it.
void fill_alltoall(Work& work, const Topology& topology, std::size_t width,
                   std::span<const std::size_t> block_bytes, std::byte* in, std::byte* out);
std::size_t longest_of(std::span<const std::size_t> block_bytes, std::size_t ranks);

}  // namespace hv::runtime
