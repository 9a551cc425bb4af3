// What a host has and how fast its memory is, measured by the prober. Blocks.
#pragma once

#include <string>

#include "rendezvous/base/deadline.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

// All but the port. `memory_time` 0: the bandwidth of memory is not measured.
rendezvous::HostProbed measure_host(base::Millis memory_time);

// GB/s copied by `threads` threads together: of each thread its best stretch of a few
// milliseconds, so that what else runs on the machine disturbs little.
double memory_bandwidth(int threads, base::Millis time);

}  // namespace hv::launcher::diagnose
