// CommunicatorImpl: the raw communicator: a lane of its own, driven by the calling thread. On one
// host that thread does everything itself, without baton, engine or system calls while it spins;
// across hosts it drives the engine, whose transport it shares.
//
// Thread: one caller at a time. Owner: lane and allocations. Failure: the first error ends the
// communicator; every later call throws it again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hv/hv.h"
#include "runtime/backend/host_backend.h"
#include "runtime/collective/lane.h"
#include "runtime/collective/pieces.h"

namespace hv::runtime {

class CommunicatorImpl {
 public:
  CommunicatorImpl(DataPlane plane, int id, Pump& pump, std::unique_ptr<Lane> lane)
      : plane_(std::move(plane)), id_(id), pump_(pump), lane_(std::move(lane)) {}

  static Communicator share(std::shared_ptr<CommunicatorImpl> impl) {
    return Communicator(std::move(impl));
  }
  int rank() const { return plane_.topology.rank; }
  int size() const { return plane_.topology.size; }
  std::string algorithm() const { return lane_->algorithm(); }
  Work take_work() { return lane_->take_work(); }
  const Topology& topology() const { return plane_.topology; }
  std::size_t piece_width_for(OpKind kind, std::size_t bytes) const {
    return piece_width(lane_->plan_for(kind, bytes), size());
  }
  base::Result<void> run(Work work);
  void check_alltoall(const TensorView& in, const GatherCounts& send, const TensorView& out,
                      const GatherCounts& receive) const;
  void alltoall(const TensorView& in, const TensorView& out,
                const std::vector<std::int64_t>& counts);
  // Looks up whether the tensor lies in memory that allocate() gave.
  void find_place(Work& work, const void* data) const;
  // This rank's part of memory that the ranks of the host share.
  base::Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes);

 private:
  void drive(const bool& done);

  DataPlane plane_;
  const int id_;
  Pump& pump_;
  std::unique_ptr<Lane> lane_;
  struct Allocation {
    std::uint64_t number;  // from 1; the same on all ranks
    std::weak_ptr<Segment> segment;
  };
  std::vector<Allocation> allocations_;  // without those that are freed, except the last
};

}  // namespace hv::runtime
