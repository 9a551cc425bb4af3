// The prober: a child process of the agent that looks at its host and at the ways to other hosts,
// one order of hvrun after the other.
//
// Thread: its process's main one. Owner: run_prober. Failure: an order that cannot be carried out
// is answered with a ProberFault; a prober that dies takes nothing with it.
#pragma once

#include <cstdint>

#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"

namespace hv::launcher {

// Until the other end of `orders` is closed. `secret`: of the probers of this survey.
void run_prober(base::UniqueFd orders, const rendezvous::Secret& secret, std::uint32_t host);

}  // namespace hv::launcher
