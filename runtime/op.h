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

enum class OpKind : std::uint8_t {
  kAllreduce = 1,
  kBroadcast,
  kAllgather,
  kBarrier,
  kReducescatter,
  kAlltoall,
  // Agreed on like the others, and done with that: no backend sees them.
  kJoin,
  kAddSet,     // input.shape: the ranks
  kRemoveSet,  // root: the set
};
std::string_view to_string(OpKind kind);
bool has_data(OpKind kind);  // tensors travel
bool is_reduction(OpKind kind);
// How many numbers of rows each of `ranks` ranks gives of its own: allgather 1, alltoall one for
// each rank, else 0. Where it is not 0, dimension 0 of the shape may differ between ranks.
std::size_t rows_per_rank(OpKind kind, std::size_t ranks);
// Reducescatter: what rank `index` of `ranks` keeps; the first ones have one row more.
std::int64_t share_of_rows(std::int64_t rows, int index, int ranks);

class GpuPoint;
class HandleState;
struct Moments;

struct Op {
  OpKind kind = OpKind::kAllreduce;
  std::int32_t set = 0;  // of ranks
  std::string name;
  TensorView input;   // read from here; a broadcast's, on the root
  TensorView output;  // written here (may equal input); without data: the engine makes room
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  int root = 0;
  std::uint32_t group = 0;              // runs with its own only; 0: with whatever fits
  std::vector<std::int64_t> splits;     // alltoall: rows for each rank of the set
  std::shared_ptr<HandleState> handle;  // null: another rank's, that has joined takes part in
  std::shared_ptr<GpuPoint> ready;      // of a device tensor: from when on it may be touched
};

struct Batch {
  std::uint64_t sequence = 0;  // consecutive, equal on all ranks
  std::int32_t set = 0;
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  int root = 0;
  std::vector<Op> ops;  // this rank's, in the coordinator's order
  // Elements that each rank of the set gives, per op. Allgather: counts[op][rank]; alltoall:
  // counts[op][from * ranks + to].
  std::vector<std::vector<std::int64_t>> counts;
  Moments* moments = nullptr;  // to be filled in, where the timeline wants it; see moments.h
  const std::vector<int>* ranks = nullptr;  // of the set, ascending; valid during Backend::start

  bool on_device() const { return !ops.empty() && ops.front().input.device >= 0; }
};

}  // namespace hv::runtime
