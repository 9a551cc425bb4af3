// hvrun's runtime: named collectives over the ranks of a job.
//
//   hv::World world = hv::init();
//   auto h = world.allreduce("layer1.weight", hv::view(grad), {.op = hv::ReduceOp::kAverage});
//   h.wait();
//
// Every call that can fail throws hv::Error. All methods are thread safe. The operations themselves
// are in hv/collectives.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hv/collectives.h"
#include "hv/communicator.h"
#include "hv/error.h"
#include "hv/export.h"
#include "hv/handle.h"
#include "hv/process_set.h"
#include "hv/types.h"

namespace hv {

// The ranks of a job during one epoch.
class HV_API World : public Collectives {
 public:
  int rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  int cross_rank() const;  // index of this host among the hosts that have this local rank
  int cross_size() const;
  int host_count() const;
  std::string host() const;  // this rank's host as the user named it
  // The ordinal of this rank's CUDA device: that of its local rank among those it sees, or
  // HVRUN_DEVICE. The first call opens it; kUnavailable says what is missing.
  int device() const;

  // All process sets, by id; the first holds all ranks.
  std::vector<ProcessSet> process_sets() const;
  // Collective: every rank of the world, in the set or not, calls it with the same ranks, in the
  // same order relative to other calls that add or remove sets; blocks. kInvalidArgument: an empty
  // set, a rank twice or unknown, a set of the same ranks exists; kMismatch: ranks ask for
  // different sets.
  ProcessSet add_process_set(const std::vector<int>& ranks);
  // Collective, as above. What is pending in the set ends with an error. kInvalidArgument: the set
  // of all ranks, or a set that is not of this world or has been removed.
  void remove_process_set(const ProcessSet& set);

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
  using Collectives::Collectives;
};

struct InitOptions {
  // Sets of ranks that every rank wants from the beginning, equal on all ranks. Without any:
  // HVRUN_PROCESS_SETS ("0-3;4,6,8"), or none. They are process_sets()[1], [2], …
  std::vector<std::vector<int>> process_sets;
};

// Joins the job that this process was started for: reads the environment that hvrun set, meets the
// other ranks, and returns when all have arrived. Without a launcher: a world of size 1, with one
// notice. Half a launcher's environment, or one task of many of another launcher: kUsage.
HV_API World init();
HV_API World init(const InitOptions& options);

HV_API const char* version();

}  // namespace hv
