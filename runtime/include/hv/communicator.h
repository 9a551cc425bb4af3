// The raw communicator: collectives without names and without negotiation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hv/export.h"
#include "hv/types.h"

namespace hv {

namespace runtime {
class CommunicatorImpl;
}  // namespace runtime

struct GatherCounts {
  std::vector<std::int64_t> elements;  // per rank
};

// Memory that the ranks of a host share, so that reductions need no extra copy. Freed with the last
// copy of the object.
class HV_API Buffer {
 public:
  Buffer() = default;
  void* data() const { return data_; }
  std::size_t size() const { return size_; }  // bytes

 private:
  friend class Communicator;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Every rank makes the same calls in the same order, as in MPI, from one thread at a time. All
// calls block. Errors end the communicator.
class HV_API Communicator {
 public:
  int rank() const;
  int size() const;
  void allreduce(const TensorView& inout, ReduceOp op = ReduceOp::kSum);
  void allreduce(const TensorView& in, const TensorView& out, ReduceOp op = ReduceOp::kSum);
  void broadcast(const TensorView& inout, int root);
  // `out` holds sum(counts.elements) elements; counts may differ by rank and may be 0.
  void allgather(const TensorView& in, const TensorView& out, const GatherCounts& counts);
  // `in` holds sum(counts.elements) elements, `out` counts.elements[rank()].
  void reducescatter(const TensorView& in, const TensorView& out, const GatherCounts& counts,
                     ReduceOp op = ReduceOp::kSum);
  // Sends to each rank the same number of elements: in.count() / size().
  void alltoall(const TensorView& in, const TensorView& out);
  // Sends send.elements[i] elements to rank i and receives receive.elements[i] from it.
  void alltoall(const TensorView& in, const GatherCounts& send, const TensorView& out,
                const GatherCounts& receive);
  void barrier();
  // Collective: every rank calls it with the same size. At least 64-byte aligned, zeroed.
  Buffer alloc(std::size_t bytes);
  // How the last collective ran, for benchmarks: "shm-flat", "shm-slices", "ring", ….
  std::string algorithm() const;

 private:
  friend class World;
  friend class runtime::CommunicatorImpl;
  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<runtime::CommunicatorImpl> impl_;
};

}  // namespace hv
