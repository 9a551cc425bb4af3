// The flight recorder of one rank as its agent sees it: owns the memory, so that it is there after
// the rank has gone, and reads it by system calls, so that no rank can make the agent fault.
//
// Thread: the agent's. Owner: the agent, until it is released. Failure: what cannot be read is left
// out; a rank without recorder runs as well.
#pragma once

#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class RankRecorder {
 public:
  explicit RankRecorder(int rank);

  int rank() const { return rank_; }
  int descriptor() const { return memory_.get(); }  // for the rank; -1 if there is none
  rendezvous::KeyValue variable() const;            // by which the rank finds it
  void set_process(int pid) { pid_ = pid; }

  rendezvous::RecorderView view() const;
  void add_totals(rendezvous::RankExited& exited) const;
  // For the timeline: what has finished since the last call, at most so much at once.
  void set_tracing(const rendezvous::Tracing& tracing);
  rendezvous::Traced take_traced();

 private:
  int rank_;
  int pid_ = 0;
  base::UniqueFd memory_;
};

}  // namespace hv::launcher
