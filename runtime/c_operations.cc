// The C ABI: operations.
#include <cstddef>
#include <vector>

#include "runtime/c_abi.h"

namespace hv::runtime {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); }

constexpr std::int32_t kTypes = static_cast<std::int32_t>(DType::kFloat8E5M2) + 1;
constexpr std::int32_t kReductions = static_cast<std::int32_t>(ReduceOp::kProduct) + 1;

TensorView view_of(const hv_tensor* tensor) {
  if (tensor == nullptr) refuse("a tensor is NULL");
  if (tensor->dtype < 0 || tensor->dtype >= kTypes) {
    refuse("there is no element type " + std::to_string(tensor->dtype));
  }
  if (tensor->dims < 0 || (tensor->dims > 0 && tensor->shape == nullptr)) {
    refuse("a tensor of " + std::to_string(tensor->dims) + " dimensions without shape");
  }
  return {tensor->data, static_cast<DType>(tensor->dtype),
          Shape(tensor->shape, tensor->shape + tensor->dims), tensor->device,
          stream_of_this_thread()};
}

std::vector<TensorView> views_of(const hv_tensor* tensors, std::int32_t count) {
  if (count < 0 || (count > 0 && tensors == nullptr)) refuse("a group without tensors");
  std::vector<TensorView> views;
  for (std::int32_t i = 0; i < count; ++i) views.push_back(view_of(&tensors[i]));
  return views;
}

ReduceOp reduction(std::int32_t op) {
  if (op < 0 || op >= kReductions) refuse("there is no reduction " + std::to_string(op));
  return static_cast<ReduceOp>(op);
}

ReduceOptions options_of(const hv_reduce_options* options) {
  if (options == nullptr) return {};
  return {reduction(options->op), options->prescale, options->postscale};
}

std::string_view text(const char* name) { return name != nullptr ? name : ""; }

// `operation` is called with the set; its handle is kept for the caller.
template <class Operation>
hv_status submit(hv_set set, hv_handle* handle, Operation operation) {
  if (handle != nullptr) *handle = 0;
  return guarded([&] {
    if (handle == nullptr) refuse("no place for the handle");
    ProcessSet on = CWorld::instance().set(set);
    *handle = CHandles::instance().add(operation(on));
  });
}

}  // namespace
}  // namespace hv::runtime

using namespace hv::runtime;
using hv::ProcessSet;

hv_status hv_allreduce(const char* name, const hv_tensor* in, const hv_tensor* out,
                       const hv_reduce_options* options, hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.allreduce(text(name), view_of(in), view_of(out != nullptr ? out : in),
                        options_of(options));
  });
}

hv_status hv_sparse_allreduce(const char* name, const hv_tensor* indices, const hv_tensor* values,
                              int32_t op, hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.sparse_allreduce(text(name), view_of(indices), view_of(values), reduction(op));
  });
}

hv_status hv_broadcast(const char* name, const hv_tensor* in, const hv_tensor* out, int32_t root,
                       hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.broadcast(text(name), view_of(in), view_of(out != nullptr ? out : in), root);
  });
}

hv_status hv_allgather(const char* name, const hv_tensor* in, hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) { return on.allgather(text(name), view_of(in)); });
}

hv_status hv_alltoall(const char* name, const hv_tensor* in, const int64_t* splits, int32_t count,
                      hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    std::vector<std::int64_t> rows;
    if (splits != nullptr && count > 0) rows.assign(splits, splits + count);
    return on.alltoall(text(name), view_of(in), rows);
  });
}

hv_status hv_reducescatter(const char* name, const hv_tensor* in, const hv_tensor* out,
                           const hv_reduce_options* options, hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    if (out == nullptr) return on.reducescatter(text(name), view_of(in), options_of(options));
    return on.reducescatter(text(name), view_of(in), view_of(out), options_of(options));
  });
}

hv_status hv_grouped_allreduce(const char* name, const hv_tensor* ins, const hv_tensor* outs,
                               int32_t count, const hv_reduce_options* options, hv_set set,
                               hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.grouped_allreduce(text(name), views_of(ins, count),
                                views_of(outs != nullptr ? outs : ins, count), options_of(options));
  });
}

hv_status hv_grouped_allgather(const char* name, const hv_tensor* ins, int32_t count, hv_set set,
                               hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.grouped_allgather(text(name), views_of(ins, count));
  });
}

hv_status hv_grouped_reducescatter(const char* name, const hv_tensor* ins, int32_t count,
                                   const hv_reduce_options* options, hv_set set,
                                   hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) {
    return on.grouped_reducescatter(text(name), views_of(ins, count), options_of(options));
  });
}

hv_status hv_barrier(const char* name, hv_set set, hv_handle* handle) {
  return submit(set, handle,
                [&](ProcessSet& on) { return name != nullptr ? on.barrier(name) : on.barrier(); });
}

hv_status hv_join(hv_set set, hv_handle* handle) {
  return submit(set, handle, [&](ProcessSet& on) { return on.join(); });
}
