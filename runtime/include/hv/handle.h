// Handle: one submitted operation, or a group of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hv/export.h"
#include "hv/types.h"

namespace hv {

namespace runtime {
class WorldImpl;
class HandleState;
}  // namespace runtime

// A value; copies refer to the same operation. Dropping every copy does not cancel it: the tensors
// stay lent until it is done. A group is done when all of its tensors are, and fails with the first
// error among them.
class HV_API Handle {
 public:
  Handle() = default;
  bool done() const;  // finished, well or badly; never blocks
  void wait();        // throws the operation's error
  // False if the time passes first; the operation goes on and the tensors stay lent.
  bool wait_for(std::chrono::nanoseconds time);
  // For device tensors: lets the work that is put on `stream` (a cudaStream_t) from now on wait for
  // the result, instead of this thread, which waits only until the ranks have agreed and the
  // operation is on the GPU. What goes wrong after that is thrown by wait(). What is not done by
  // the GPU is waited for as by wait().
  void wait_on(void* stream);

  // What the runtime has made room for, valid while a copy of the handle lives; call after wait(),
  // or after wait_on() for use on that stream. On the device where the input is.
  // Allgather: the rows of all ranks in order of rank. Alltoall: the rows that each rank sent here,
  // in order of rank. Reducescatter: this rank's rows. `index`: of the tensor in a group; a sparse
  // allreduce has its indices at 0, its values at 1.
  TensorView output(std::size_t index = 0) const;
  // How many of these rows came from each rank (allgather, alltoall).
  std::vector<std::int64_t> rows(std::size_t index = 0) const;
  std::size_t outputs() const;  // tensors in the group; 1 for a single operation
  int last_joined() const;      // join: the last rank that joined

  // When submitted and when done, steady clock, nanoseconds; 0 while not done.
  std::int64_t submitted_ns() const;
  std::int64_t done_ns() const;

 private:
  friend class runtime::WorldImpl;
  explicit Handle(std::shared_ptr<runtime::HandleState> state) : state_(std::move(state)) {}
  std::shared_ptr<runtime::HandleState> state_;
};

}  // namespace hv
