// hvrun's runtime: named collectives over the ranks of a job.
//
//   hv::World world = hv::init();
//   auto h = world.allreduce("layer1.weight", hv::view(grad), {.op = hv::ReduceOp::kAverage});
//   h.wait();
//
// Every call that can fail throws hv::Error. All methods are thread safe. Named operations may be
// submitted in any order, from any thread; ranks agree on the order among themselves. A name may be
// pending once at a time per rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hv/error.h"
#include "hv/export.h"
#include "hv/types.h"

namespace hv {

namespace runtime {
class WorldImpl;
class HandleState;
class CommunicatorImpl;
}  // namespace runtime

// One submitted operation. A value; copies refer to the same operation. Dropping every copy does
// not cancel it: the tensor stays lent until it is done.
class HV_API Handle {
 public:
  Handle() = default;
  bool done() const;  // finished, well or badly; never blocks
  void wait();        // throws the operation's error
  // False if the time passes first; the operation goes on and the tensor stays lent.
  bool wait_for(std::chrono::nanoseconds time);
  // Allgather: the rows of all ranks in order of rank, valid while a copy of the handle lives.
  // Call after wait().
  TensorView output() const;
  std::vector<std::int64_t> rows() const;  // allgather: rows that each rank gave
  // When submitted and when done, steady clock, nanoseconds; 0 while not done.
  std::int64_t submitted_ns() const;
  std::int64_t done_ns() const;

 private:
  friend class runtime::WorldImpl;
  friend class World;
  explicit Handle(std::shared_ptr<runtime::HandleState> state) : state_(std::move(state)) {}
  std::shared_ptr<runtime::HandleState> state_;
};

struct AllreduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;   // multiplies each input; must be equal on all ranks
  double postscale = 1.0;  // multiplies the result; must be equal on all ranks
};

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

// The same collectives without names and without negotiation: every rank makes the same calls in
// the same order, as in MPI, from one thread at a time. All calls block. Errors end the
// communicator.
class HV_API Communicator {
 public:
  int rank() const;
  int size() const;
  void allreduce(const TensorView& inout, ReduceOp op = ReduceOp::kSum);
  void allreduce(const TensorView& in, const TensorView& out, ReduceOp op = ReduceOp::kSum);
  void broadcast(const TensorView& inout, int root);
  // `out` holds sum(counts.elements) elements; counts may differ by rank and may be 0.
  void allgather(const TensorView& in, const TensorView& out, const GatherCounts& counts);
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

// The ranks of a job during one epoch.
class HV_API World {
 public:
  int rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  int cross_rank() const;  // index of this host among the hosts that have this local rank
  int cross_size() const;
  int host_count() const;
  std::string host() const;  // this rank's host as the user named it

  // In place, or from `in` to `out` of the same shape and type.
  Handle allreduce(std::string_view name, const TensorView& inout, const AllreduceOptions& = {});
  Handle allreduce(std::string_view name, const TensorView& in, const TensorView& out,
                   const AllreduceOptions& = {});
  Handle broadcast(std::string_view name, const TensorView& inout, int root);
  // Concatenates along dimension 0; ranks may give different numbers of rows, 0 included.
  Handle allgather(std::string_view name, const TensorView& in);
  Handle barrier(std::string_view name = "barrier");

  // Collective: every rank calls it, in the same order relative to other communicator() calls.
  Communicator communicator();

  // Has hvrun write a trace of all operations of all ranks, from now on, into one file that
  // Perfetto and chrome://tracing open; stop_timeline() returns when it is complete. Rank 0's calls
  // count, those of other ranks do nothing. A relative path is seen from this process; the file is
  // made where hvrun runs. mark_cycles: also mark each round of decisions. kUnavailable without
  // hvrun, kInvalidArgument while another file is being written, kSystem if it cannot be.
  void start_timeline(const std::string& path, bool mark_cycles = false);
  void stop_timeline();

  // Ends the world: waits for what is pending on this rank, says goodbye. Idempotent. Also run when
  // the last copy of a World goes.
  void shutdown();

 private:
  friend class runtime::WorldImpl;
  explicit World(std::shared_ptr<runtime::WorldImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<runtime::WorldImpl> impl_;
};

// Joins the job that this process was started for: reads the environment that hvrun set, meets the
// other ranks, and returns when all have arrived. Without a launcher: a world of size 1, with one
// notice. Half a launcher's environment, or one task of many of another launcher: kUsage.
HV_API World init();

HV_API const char* version();

}  // namespace hv
