// The keeper: parent of the agent. Each of the two watches the other, and the death of either ends
// everything below. What a rank leaves behind falls to the keeper (it is a subreaper), which ends
// it when the agent is done.
#pragma once

#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// Forks. Returns in the agent, with a descriptor that reaches its end when the keeper dies. The
// keeper's own path never returns: it exits with the agent's code, after the whole tree has ended.
// In a step of Slurm (`step`) what Slurm sends ends neither of the two; the descriptor tells the
// agent what the keeper has got, a byte for each signal, and the keeper's last word on standard
// output is a farewell (ticket.h).
base::Result<base::UniqueFd> split_off_agent(bool step);

// What Slurm may send to a step before it kills: all that neither stops nor tells of a fault.
std::vector<int> scheduler_signals();

}  // namespace hv::launcher
