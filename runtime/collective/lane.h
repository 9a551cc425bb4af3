// Lane: runs collectives one after the other in chunks, several chunks in flight, so that copying,
// reducing and the network overlap, also from one collective to the next. Every rank starts the
// same collectives in the same order.
//
// Thread: one at a time (the baton holder's, or a raw communicator's caller). Owner: backend or
// communicator. Failure: the first error ends everything started, and everything started later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/host_backend.h"
#include "runtime/collective/stage.h"

namespace hv::runtime {

class Lane {
 public:
  struct Options {
    int id = 0;  // equal on all ranks, once per lane of a world
    Slots::Wake wake = Slots::Wake::kDoorbell;
    bool blocking = false;  // each rank finishes one collective before it starts the next
  };
  // Collective over the plane's ranks, and over the others of their hosts, which call absent().
  static base::Result<std::unique_ptr<Lane>> open(const DataPlane& plane, const Options& options,
                                                  base::Deadline deadline);
  // For a rank that is not among `ranks`, whose lane this is.
  static base::Result<void> absent(const DataPlane& world, const std::vector<int>& ranks,
                                   const Options& options, base::Deadline deadline);
  ~Lane();

  // An empty work to fill in for start(); its vectors keep their memory.
  Work take_work();
  void start(Work work, Done done);
  // Moves what can move; true if anything did. Dones run from here.
  bool poll();
  bool idle() const { return queue_.empty(); }
  void fail(const base::Error& why);
  // How a collective of so many bytes would run.
  Plan plan_for(OpKind kind, std::size_t bytes) const;
  const Topology& topology() const { return stage_.topology; }

  const Sizes& sizes() const { return stage_.sizes; }
  Slots& slots() { return stage_.slots; }
  std::string algorithm() const { return name_of(last_plan_, stage_.sizes); }

 private:
  struct Collective : Running {
    Done done;
    std::size_t started = 0;  // bytes of it that are in chunks
    int chunks_left = 0;      // in flight
    bool all_started = false;
    bool in_place = false;
  };
  struct Flight {  // one chunk in flight; its index is its slot
    explicit Flight(FramePool& frames) : strand(frames) {}
    Strand strand;
    Task task;
    Collective* collective = nullptr;
  };

  Lane(const DataPlane& plane, const Options& options, Slots slots);
  bool start_chunks();
  void launch(Flight& flight, Collective& collective);
  void land(Flight& flight);
  void retire(Collective& collective, const base::Error* error);
  Task make_task(Flight& flight, Chunk chunk);

  DataPlane plane_;
  Stage stage_;
  FramePool frames_;
  std::vector<Flight> flights_;
  std::vector<std::unique_ptr<Collective>> queue_;    // oldest first
  std::vector<std::unique_ptr<Collective>> retired_;  // for their memory
  std::uint64_t next_chunk_ = 0;
  Plan last_plan_;
  std::optional<base::Error> failure_;
};

}  // namespace hv::runtime
