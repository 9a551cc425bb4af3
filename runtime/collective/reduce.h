// Reductions of memory: what every algorithm computes with.
//
// An element's value is defined once, whatever algorithm runs: the ranks of a host are folded from
// left to right, the results of the hosts are combined along one tree (HostTree). Half types are
// computed in float32: a host's result is rounded once, the final result is rounded once. Integers
// wrap; their average is the (wrapped) sum divided by the number of ranks, truncated towards zero.
// bool: sum and max are "or", product and min are "and". NaN wins in min and max.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hv/types.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

// Whether values of this type can be reduced so; kInvalidArgument says why not.
base::Result<void> check_reduction(DType dtype, ReduceOp op);

// What happens to inputs before and to results after: input * pre; result / divisor * post.
struct Scale {
  double pre = 1.0, post = 1.0;
  std::int64_t divisor = 1;
  bool finishes() const { return post != 1.0 || divisor != 1; }
};
// For `ranks` ranks; a division by a power of two becomes an (exact) multiplication.
Scale make_scale(DType dtype, ReduceOp op, int ranks, double prescale, double postscale);

// The loops for one type and operation. "Wide" is float32 for the half types, else the type itself.
// All pointers may be unaligned. dst may equal a source, but not overlap it otherwise.
struct Kernel {
  std::size_t size = 0;       // bytes of an element
  std::size_t wide_size = 0;  // bytes of a wide element
  // dst = finish(src[0]*pre ∘ src[1]*pre ∘ …), in registers, rounded once.
  void (*fold)(void* dst, const void* const* src, int sources, std::size_t count,
               const Scale& scale);
  void (*widen)(void* wide, const void* src, std::size_t count);
  void (*combine)(void* wide, const void* wide_a, const void* wide_b, std::size_t count);
  void (*finish)(void* dst, const void* wide, std::size_t count, const Scale& scale);
};
const Kernel& kernel(DType dtype, ReduceOp op);

// Instruction sets that this machine can run, best last; for tests.
std::vector<std::string_view> instruction_sets();
const Kernel& kernel(DType dtype, ReduceOp op, std::string_view instruction_set);

}  // namespace hv::runtime
