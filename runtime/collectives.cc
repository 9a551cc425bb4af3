// The named collectives: check what the caller hands in, then submit.
#include "hv/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/collective/reduce.h"
#include "runtime/members.h"
#include "runtime/raise.h"
#include "runtime/world.h"

namespace hv {
namespace {

using runtime::Members;
using runtime::Op;
using runtime::OpKind;

constexpr std::size_t kMaxName = 64 * 1024;

[[noreturn]] void refuse(const Op& op, const std::string& why,
                         ErrorCode code = ErrorCode::kInvalidArgument) {
  throw Error(code, std::string(runtime::to_string(op.kind)) + " '" + op.name + "': " + why);
}

Op make_op(OpKind kind, std::string_view name, const std::shared_ptr<const Members>& members) {
  Op op;
  op.kind = kind;
  op.name = name;
  if (name.empty()) refuse(op, "the name is empty; all ranks must use one name for one tensor");
  if (name.size() > kMaxName) refuse(op, "the name is longer than 64 KiB");
  if (!members) refuse(op, "this object is no process set");
  const std::string set = "process set " + std::to_string(members->set);
  if (members->removed) refuse(op, set + " has been removed");
  if (members->index < 0) {
    refuse(op, "this rank is not in " + set + "; only its ranks may use it");
  }
  op.set = members->set;
  return op;
}

void check(const Op& op, const TensorView& view) {
  for (std::int64_t extent : view.shape) {
    if (extent < 0) refuse(op, "the shape " + to_string(view.shape) + " has a negative extent");
  }
  if (view.data == nullptr && view.count() > 0) {
    refuse(op, "no data for a tensor of shape " + to_string(view.shape));
  }
}

void check_alike(const Op& op, const TensorView& in, const TensorView& out) {
  check(op, in);
  check(op, out);
  if (in.shape != out.shape || in.dtype != out.dtype || in.device != out.device) {
    refuse(op, "input (" + std::string(to_string(in.dtype)) + " " + to_string(in.shape) +
                   ") and output (" + std::string(to_string(out.dtype)) + " " +
                   to_string(out.shape) + ") differ");
  }
}

bool is_float8(DType dtype) { return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2; }

void set_reduction(Op& op, const ReduceOptions& options) {
  const bool by_gpu = op.input.device >= 0 && is_float8(op.input.dtype);
  if (auto ok = runtime::check_reduction(op.input.dtype, options.op); !ok && !by_gpu) {
    refuse(op, ok.error().text);
  }
  op.reduce = options.op;
  op.prescale = options.prescale;
  op.postscale = options.postscale;
}

void need_rows(const Op& op, const TensorView& tensor) {
  if (tensor.shape.empty()) refuse(op, "a scalar has no rows; give it the shape [1]");
}

Op allreduce_op(std::string_view name, const std::shared_ptr<const Members>& members,
                const TensorView& in, const TensorView& out, const ReduceOptions& options) {
  Op op = make_op(OpKind::kAllreduce, name, members);
  check_alike(op, in, out);
  op.input = in;
  op.output = out;
  set_reduction(op, options);
  return op;
}

Op allgather_op(std::string_view name, const std::shared_ptr<const Members>& members,
                const TensorView& in) {
  Op op = make_op(OpKind::kAllgather, name, members);
  check(op, in);
  need_rows(op, in);
  op.input = in;
  return op;
}

// Without data in `out` the engine makes room.
Op reducescatter_op(std::string_view name, const std::shared_ptr<const Members>& members,
                    const TensorView& in, const ReduceOptions& options) {
  Op op = make_op(OpKind::kReducescatter, name, members);
  check(op, in);
  need_rows(op, in);
  op.input = in;
  if (options.op == ReduceOp::kAdasum) refuse(op, "adasum can not be scattered; use allreduce");
  set_reduction(op, options);
  op.output = TensorView{nullptr, in.dtype, in.shape, in.device};
  op.output.shape[0] = runtime::share_of_rows(in.shape[0], members->index, members->size());
  return op;
}

std::string member_name(std::string_view name, std::size_t index, std::size_t of) {
  return std::string(name) + "_" + std::to_string(index) + "of" + std::to_string(of);
}

void need_tensors(OpKind kind, std::string_view name, std::size_t tensors) {
  if (tensors > 0) return;
  throw Error(ErrorCode::kInvalidArgument, "grouped " + std::string(runtime::to_string(kind)) +
                                               " '" + std::string(name) +
                                               "': the group has no tensors");
}

// Each value divided by the number of ranks, in memory of its own.
std::shared_ptr<void> divided(const TensorView& values, int ranks) {
  std::shared_ptr<void> memory(::operator new(std::max<std::size_t>(values.bytes(), 1)),
                               [](void* p) { ::operator delete(p); });
  const void* source = values.data;
  const auto op = ReduceOp::kAverage;
  runtime::kernel(values.dtype, op)
      .fold(memory.get(), &source, 1, static_cast<std::size_t>(values.count()),
            runtime::make_scale(values.dtype, op, ranks, 1.0, 1.0));
  return memory;
}

std::shared_ptr<void> copied(const TensorView& values) {
  std::shared_ptr<void> memory(::operator new(std::max<std::size_t>(values.bytes(), 1)),
                               [](void* p) { ::operator delete(p); });
  if (values.bytes() > 0) std::memcpy(memory.get(), values.data, values.bytes());
  return memory;
}

}  // namespace

Handle Collectives::allreduce(std::string_view name, const TensorView& inout,
                              const ReduceOptions& options) {
  return allreduce(name, inout, inout, options);
}

Handle Collectives::allreduce(std::string_view name, const TensorView& in, const TensorView& out,
                              const ReduceOptions& options) {
  Op op = allreduce_op(name, members_, in, out, options);
  return impl_->submit(std::move(op));
}

Handle Collectives::grouped_allreduce(std::string_view name, const std::vector<TensorView>& inouts,
                                      const ReduceOptions& options) {
  return grouped_allreduce(name, inouts, inouts, options);
}

Handle Collectives::grouped_allreduce(std::string_view name, const std::vector<TensorView>& ins,
                                      const std::vector<TensorView>& outs,
                                      const ReduceOptions& options) {
  need_tensors(OpKind::kAllreduce, name, ins.size());
  if (ins.size() != outs.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "grouped allreduce '" + std::string(name) + "': " + std::to_string(ins.size()) +
                    " inputs but " + std::to_string(outs.size()) + " outputs");
  }
  std::vector<Op> ops;
  for (std::size_t i = 0; i < ins.size(); ++i) {
    ops.push_back(
        allreduce_op(member_name(name, i, ins.size()), members_, ins[i], outs[i], options));
  }
  return impl_->submit_group(name, std::move(ops));
}

Handle Collectives::sparse_allreduce(std::string_view name, const TensorView& indices,
                                     const TensorView& values, ReduceOp reduce) {
  std::vector<Op> ops;
  ops.push_back(allgather_op(std::string(name) + ".indices", members_, indices));
  ops.push_back(allgather_op(std::string(name) + ".values", members_, values));
  const bool whole = indices.dtype == DType::kInt32 || indices.dtype == DType::kInt64;
  if (!whole || indices.shape.size() != 1) {
    refuse(ops[0], "the indices must be int32 or int64 in one dimension, not " +
                       std::string(to_string(indices.dtype)) + " " + to_string(indices.shape));
  }
  if (indices.shape[0] != values.shape[0]) {
    refuse(ops[0], std::to_string(indices.shape[0]) + " indices for " +
                       std::to_string(values.shape[0]) + " rows of values");
  }
  if (reduce != ReduceOp::kSum && reduce != ReduceOp::kAverage) {
    refuse(ops[1], "sparse tensors can be summed or averaged, not reduced by " +
                       std::string(to_string(reduce)));
  }
  if (auto ok = runtime::check_reduction(values.dtype, reduce); !ok) {
    refuse(ops[1], ok.error().text);
  }
  if (indices.device >= 0 || values.device >= 0) {
    refuse(ops[1], "sparse tensors must be in host memory; on a GPU, allgather both instead",
           ErrorCode::kUnavailable);
  }
  auto memory = reduce == ReduceOp::kAverage ? divided(values, members_->size()) : copied(values);
  ops[1].input.data = memory.get();
  ops[1].handle = impl_->make_handle();
  ops[1].handle->keep(std::move(memory));
  return impl_->submit_group(name, std::move(ops));
}

Handle Collectives::broadcast(std::string_view name, const TensorView& inout, int root) {
  return broadcast(name, inout, inout, root);
}

Handle Collectives::broadcast(std::string_view name, const TensorView& in, const TensorView& out,
                              int root) {
  Op op = make_op(OpKind::kBroadcast, name, members_);
  check(op, out);
  const auto& ranks = members_->ranks;
  if (!std::binary_search(ranks.begin(), ranks.end(), root)) {
    std::string known = "0 to " + std::to_string(ranks.size() - 1);
    if (members_->set != 0) {
      known = "its ranks: " + to_string(Shape(ranks.begin(), ranks.end()));
    }
    refuse(op, "root " + std::to_string(root) + " is not a rank of this " +
                   (members_->set == 0 ? "world" : "process set") + " (" + known + ")");
  }
  if (root == ranks[members_->index]) check_alike(op, in, out);
  op.input = root == ranks[members_->index] ? in : out;
  op.output = out;
  op.root = root;
  return impl_->submit(std::move(op));
}

Handle Collectives::allgather(std::string_view name, const TensorView& in) {
  Op op = allgather_op(name, members_, in);
  return impl_->submit(std::move(op));
}

Handle Collectives::grouped_allgather(std::string_view name, const std::vector<TensorView>& ins) {
  need_tensors(OpKind::kAllgather, name, ins.size());
  std::vector<Op> ops;
  for (std::size_t i = 0; i < ins.size(); ++i) {
    ops.push_back(allgather_op(member_name(name, i, ins.size()), members_, ins[i]));
  }
  return impl_->submit_group(name, std::move(ops));
}

Handle Collectives::alltoall(std::string_view name, const TensorView& in,
                             const std::vector<std::int64_t>& splits) {
  Op op = make_op(OpKind::kAlltoall, name, members_);
  check(op, in);
  need_rows(op, in);
  const std::int64_t rows = in.shape[0];
  const auto ranks = static_cast<std::int64_t>(members_->size());
  op.input = in;
  op.splits = splits;
  if (splits.empty()) {
    if (rows % ranks != 0) {
      refuse(op, std::to_string(rows) + " rows can not be split evenly among " +
                     std::to_string(ranks) + " ranks; pass the splits");
    }
    op.splits.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  if (static_cast<std::int64_t>(op.splits.size()) != ranks) {
    refuse(op,
           std::to_string(op.splits.size()) + " splits for " + std::to_string(ranks) + " ranks");
  }
  if (std::any_of(op.splits.begin(), op.splits.end(), [](auto n) { return n < 0; })) {
    refuse(op, "the splits " + to_string(op.splits) + " have a negative number");
  }
  const auto sum = std::accumulate(op.splits.begin(), op.splits.end(), std::int64_t{0});
  if (sum > rows) {
    refuse(op, "the splits " + to_string(op.splits) + " add up to " + std::to_string(sum) +
                   ", and the tensor has " + std::to_string(rows) + " rows");
  }
  return impl_->submit(std::move(op));
}

Handle Collectives::reducescatter(std::string_view name, const TensorView& in,
                                  const ReduceOptions& options) {
  Op op = reducescatter_op(name, members_, in, options);
  return impl_->submit(std::move(op));
}

Handle Collectives::reducescatter(std::string_view name, const TensorView& in,
                                  const TensorView& out, const ReduceOptions& options) {
  Op op = reducescatter_op(name, members_, in, options);
  check_alike(op, {out.data, op.output.dtype, op.output.shape, op.output.device}, out);
  op.output = out;
  return impl_->submit(std::move(op));
}

Handle Collectives::grouped_reducescatter(std::string_view name, const std::vector<TensorView>& ins,
                                          const ReduceOptions& options) {
  need_tensors(OpKind::kReducescatter, name, ins.size());
  std::vector<Op> ops;
  for (std::size_t i = 0; i < ins.size(); ++i) {
    ops.push_back(reducescatter_op(member_name(name, i, ins.size()), members_, ins[i], options));
  }
  return impl_->submit_group(name, std::move(ops));
}

Handle Collectives::barrier(std::string_view name) {
  Op op = make_op(OpKind::kBarrier, name, members_);
  return impl_->submit(std::move(op));
}

Handle Collectives::join() {
  Op op = make_op(OpKind::kJoin, "join", members_);
  return impl_->submit(std::move(op));
}

}  // namespace hv
