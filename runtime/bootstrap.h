// How ranks that `srun` has started without hvrun find each other: rank 0's process serves the
// rendezvous, and the others learn its address and the secret of the job by PMI-2, or by a
// credential of munge, which only processes of the same user can open.
//
// Thread: the caller's. Owner of the server: rank 0's world. Failure: kUsage with the line to type
// instead where neither way is there; kTimeout with who is missing.
#pragma once

#include <memory>
#include <optional>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"
#include "rendezvous/server_thread.h"
#include "runtime/munge_door.h"

namespace hv::runtime {

// Nothing of hvrun's set, and one of several tasks; else nullopt.
std::optional<SlurmTask> find_slurm_task(const rendezvous::Getenv& getenv);

// "h[001-003,007],x" → "h001"
std::string first_of_node_list(std::string_view list);

struct Meeting {
  rendezvous::Contract contract;
  std::shared_ptr<rendezvous::ServerThread> server;  // of rank 0, for as long as its world lives
  std::shared_ptr<MungeDoor> door;                   // of rank 0, until all ranks are in
};
base::Result<Meeting> meet_by_slurm(const SlurmTask& task, const rendezvous::Getenv& getenv,
                                    base::Deadline deadline);

}  // namespace hv::runtime
