// The named collectives, over all ranks of a World or over the ranks of a ProcessSet.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "hv/handle.h"

namespace hv {

namespace runtime {
struct Members;
}  // namespace runtime

// prescale multiplies each input, postscale the result; both must be equal on all ranks.
struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;
  double postscale = 1.0;
};
using AllreduceOptions = ReduceOptions;

// Every rank of the set submits the same operations, in any order, from any thread; ranks agree on
// the order among themselves. A name may be pending once at a time per rank and set. All methods
// are thread safe, never block and throw hv::Error on what is wrong at the call; what only a
// comparison of the ranks shows (kMismatch) is thrown by the handle, on every rank alike. Tensors
// of all sizes, empty ones too; at most 64 KiB of name.
class HV_API Collectives {
 public:
  // In place, or from `in` to `out` of the same shape and type. kAdasum: float types only.
  Handle allreduce(std::string_view name, const TensorView& inout, const ReduceOptions& = {});
  Handle allreduce(std::string_view name, const TensorView& in, const TensorView& out,
                   const ReduceOptions& = {});
  // Sums rows that only some ranks have: `indices` (one dimension, int32 or int64) says which row
  // of a larger tensor each row of `values` is. The handle's outputs are the indices and the values
  // of all ranks in order of rank; an index may occur several times, its rows are to be added. Sum
  // or average (values divided by the number of ranks). `values` is copied, `indices` lent.
  Handle sparse_allreduce(std::string_view name, const TensorView& indices,
                          const TensorView& values, ReduceOp op = ReduceOp::kAverage);
  // The root's tensor on every rank, in place or from `in` (looked at on the root only) to `out`.
  // `root` is a rank of the world, also in a process set.
  Handle broadcast(std::string_view name, const TensorView& inout, int root);
  Handle broadcast(std::string_view name, const TensorView& in, const TensorView& out, int root);
  // Concatenates along dimension 0; ranks may give different numbers of rows, 0 included.
  Handle allgather(std::string_view name, const TensorView& in);
  // Sends splits[i] rows of `in` to rank i of the set, in order; without splits the same number to
  // each. They may differ between ranks. The handle's rows() say what came from whom.
  Handle alltoall(std::string_view name, const TensorView& in,
                  const std::vector<std::int64_t>& splits = {});
  // Reduces, and leaves each rank its share of the rows: the first rows % size ranks have one more.
  // To the handle's output, or to `out` of that shape. Any reduction but kAdasum.
  Handle reducescatter(std::string_view name, const TensorView& in, const ReduceOptions& = {});
  Handle reducescatter(std::string_view name, const TensorView& in, const TensorView& out,
                       const ReduceOptions& = {});

  // Groups: submitted in one go, done when all are, under the names name_0of3, name_1of3, …
  Handle grouped_allreduce(std::string_view name, const std::vector<TensorView>& inouts,
                           const ReduceOptions& = {});
  Handle grouped_allreduce(std::string_view name, const std::vector<TensorView>& ins,
                           const std::vector<TensorView>& outs, const ReduceOptions& = {});
  Handle grouped_allgather(std::string_view name, const std::vector<TensorView>& ins);
  Handle grouped_reducescatter(std::string_view name, const std::vector<TensorView>& ins,
                               const ReduceOptions& = {});

  Handle barrier(std::string_view name = "barrier");

  // This rank has no more steps: until every rank of the set has joined, allreduces and barriers of
  // the others go on without it. It counts as zeros (kAverage still divides by all ranks), and as
  // whatever changes nothing with kMin, kMax and kProduct. Other operations of the others fail
  // meanwhile, on each of them. The handle is done when all have joined and tells who was last.
  Handle join();

 protected:
  friend class runtime::WorldImpl;
  Collectives() = default;
  Collectives(std::shared_ptr<runtime::WorldImpl> impl,
              std::shared_ptr<const runtime::Members> members)
      : impl_(std::move(impl)), members_(std::move(members)) {}
  std::shared_ptr<runtime::WorldImpl> impl_;
  std::shared_ptr<const runtime::Members> members_;
};

}  // namespace hv
