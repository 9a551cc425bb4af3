// Adasum: allreduces that add gradients so that what two of them have in common counts once:
//   a ⊕ b = (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b
// along one binary tree over the ranks in their order, per tensor. Every rank works on its share of
// each tensor, for all ranks: an alltoall brings the shares, the dot products are summed in order
// of rank, an allgather spreads the result. So it costs as much traffic as a sum, takes any number
// of ranks, and its bits depend neither on batches nor on hosts.
//
// Thread: the baton holder's. Owner: the host backend; a lane of its own from the first use on, one
// batch at a time. Failure: the first error ends all batches.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "runtime/backend/backend.h"
#include "runtime/collective/lane.h"

namespace hv::runtime {

class Adasum {
 public:
  // `lane`: the number of its lane, equal on all ranks.
  Adasum(DataPlane plane, int lane) : plane_(std::move(plane)), lane_number_(lane) {}
  ~Adasum();

  void start(Batch batch, Done done);
  bool progress();
  bool idle() const { return queue_.empty(); }

 private:
  struct Run {
    Batch batch;
    Done done;
  };
  bool open();
  void end(base::Result<void> result);

  DataPlane plane_;
  const int lane_number_;
  std::unique_ptr<Lane> lane_;
  FramePool frames_;
  std::deque<Run> queue_;
  std::optional<Strand> strand_;  // of the run in front, once it has begun
  Task task_;
  std::optional<base::Error> failure_;
};

}  // namespace hv::runtime
