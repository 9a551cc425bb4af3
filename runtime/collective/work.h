// Work: one collective as the algorithms see it: the concatenation of all its tensors as one range
// of bytes, of which this rank's memory holds stretches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "runtime/collective/reduce.h"
#include "runtime/moments.h"
#include "runtime/op.h"
#include "runtime/transport/local_group.h"

namespace hv::runtime {

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};
inline Range intersect(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Bytes [range.begin, range.end) of the concatenation, in memory that the caller lends.
struct Stretch {
  Range range;
  std::byte* data = nullptr;
};

// Bytes of the concatenation that come from one rank (allgather), or that one rank gets
// (reducescatter; alltoall, of this rank's own).
struct Block {
  Range range;
  int rank = 0;
};

struct Work {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  int root = 0;
  std::size_t bytes = 0;  // of the whole concatenation
  // Raw allreduce where the communicator has memory of its own: `shared` if the tensor lies in it,
  // at this offset of every rank's part. `place` names it, 0 is elsewhere.
  bool may_be_in_place = false;
  std::uint64_t place = 0;
  Segment shared;
  std::size_t offset = 0;
  std::vector<Stretch> inputs, outputs;  // ascending
  std::vector<Block> blocks;             // all ranks', ascending, without empty ones
  // Alltoall: every rank has a concatenation of its own, of what it sends, and `bytes` is the
  // length of the longest. Per rank here: what of its concatenation comes to this one, and where
  // to.
  std::vector<std::vector<Stretch>> arrivals;
  Moments* moments = nullptr;  // to be filled in; null: nobody wants them

  void clear() {
    inputs.clear();
    outputs.clear();
    blocks.clear();
    for (auto& from_one : arrivals) from_one.clear();
    bytes = 0;
    may_be_in_place = false;
    place = 0;
    shared = {};
    offset = 0;
    moments = nullptr;
  }
};

// Calls each(range, data) for the parts of `stretches` that lie in `range`.
template <class Each>
void for_each_in(const std::vector<Stretch>& stretches, Range range, Each each) {
  auto it = std::partition_point(stretches.begin(), stretches.end(),
                                 [&](const Stretch& s) { return s.range.end <= range.begin; });
  for (; it != stretches.end() && it->range.begin < range.end; ++it) {
    const Range part = intersect(it->range, range);
    if (!part.empty()) each(part, it->data + (part.begin - it->range.begin));
  }
}
template <class Each>
void for_each_in(const std::vector<Block>& blocks, Range range, Each each) {
  auto it = std::partition_point(blocks.begin(), blocks.end(),
                                 [&](const Block& b) { return b.range.end <= range.begin; });
  for (; it != blocks.end() && it->range.begin < range.end; ++it) {
    const Range part = intersect(it->range, range);
    if (!part.empty()) each(part, it->rank);
  }
}

}  // namespace hv::runtime
