// Op: one named tensor request of this rank. Batch: ops that run as one collective, as decided by
// the coordinator, the same on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hv/types.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

enum class OpKind : std::uint8_t { kAllreduce = 1, kBroadcast, kAllgather, kBarrier };
std::string_view to_string(OpKind kind);

class HandleState;
struct Moments;

struct Op {
  OpKind kind = OpKind::kAllreduce;
  std::string name;
  TensorView input;   // allreduce, allgather: read from here
  TensorView output;  // allreduce, broadcast: written here (may equal input)
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  int root = 0;
  std::shared_ptr<HandleState> handle;
};

struct Batch {
  std::uint64_t sequence = 0;  // consecutive, equal on all ranks
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  int root = 0;
  std::vector<Op> ops;  // this rank's, in the coordinator's order
  // Allgather: elements that each rank gives, per op: counts[op][rank].
  std::vector<std::vector<std::int64_t>> counts;
  Moments* moments = nullptr;  // to be filled in, where the timeline wants it; see moments.h
};

}  // namespace hv::runtime
