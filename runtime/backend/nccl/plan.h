// What a batch is on the device: kernels that pack, calls of NCCL, kernels that unpack, in steps of
// one trip through the buffer each. Pure: nothing here calls CUDA or NCCL. Equal on all ranks but
// for addresses.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/op.h"

namespace hv::runtime::nccl {

struct Call {
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kSend, kRecv };
  Kind kind = Kind::kAllReduce;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;  // elements, as NCCL counts them for this call
  int type = kNcclUint8;
  int op = kNcclSum;
  int peer = 0;  // root, or the other end
};

struct Slice {  // of a tensor, and its place behind Step::base
  std::byte* tensor = nullptr;
  std::size_t count = 0;  // elements of the kernel
  std::size_t offset = 0;
};

struct Step {
  const char* kernel = "hv_move_bytes";
  std::size_t element = 1;  // bytes of the kernel's tensors
  std::byte* base = nullptr;
  double prescale = 1.0, postscale = 1.0;  // on the way in, on the way out
  std::vector<Slice> pack, unpack;
  std::vector<Call> calls;  // one group
};

struct PlanOptions {
  std::byte* buffer = nullptr;
  std::size_t buffer_bytes = 0;
  std::string compression;  // "", "fp16" or "bf16"
};

struct Reduction {
  int type, op;
};
// Null where NCCL of this version has no such reduction, or the kernels cannot scale it.
std::optional<Reduction> reduction_of(const Batch& batch, int nccl_version);

// `ranks`: of the batch's set, ascending; `index`: this rank's place among them.
std::vector<Step> make_steps(const Batch& batch, const std::vector<int>& ranks, int index,
                             const PlanOptions& options);

}  // namespace hv::runtime::nccl
