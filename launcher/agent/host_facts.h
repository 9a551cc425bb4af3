// What an agent tells about its host.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher {

std::string host_name();
// Boot id and the network, IPC and PID namespaces: equal for two names of one host, different for
// two containers on it.
std::string host_identity();
int usable_cpus();
std::vector<rendezvous::KeyValue> device_masks();  // variables that say which cards may be used

}  // namespace hv::launcher
