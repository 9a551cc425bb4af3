// The keeper: parent of the agent. Each of the two watches the other, and the death of either ends
// everything below. What a rank leaves behind falls to the keeper (it is a subreaper), which ends
// it when the agent is done.
#pragma once

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// Forks. Returns in the agent, with a descriptor that reaches its end when the keeper dies. The
// keeper's own path never returns: it exits with the agent's code, after the whole tree has ended.
base::Result<base::UniqueFd> split_off_agent();

}  // namespace hv::launcher
