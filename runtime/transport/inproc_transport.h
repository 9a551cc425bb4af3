// Transport between threads of one process, for tests and simulation. Ranks meet in a hub.
#pragma once

#include <memory>

#include "runtime/transport/transport.h"

namespace hv::runtime {

class InprocHub;
std::shared_ptr<InprocHub> make_inproc_hub(int size);
std::unique_ptr<Transport> make_inproc_transport(std::shared_ptr<InprocHub> hub, int rank);

}  // namespace hv::runtime
