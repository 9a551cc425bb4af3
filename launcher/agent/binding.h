// --bind: which processors, and whose memory, a rank gets. Reading the topology looks at sysfs and
// at the mask that this process has; the choice is pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher {

struct Cpu {
  int number = 0;
  int node = 0, package = 0, core = 0;
};
using Topology = std::vector<Cpu>;  // the processors of our mask, sorted by node, package, core

Topology read_topology(const std::string& sysfs);

struct Place {
  std::vector<int> cpus = {};  // empty: not bound
  int node = -1;               // of the memory; -1: as it comes
};

// kCore: the cores in order, as many for each local rank as there are, and more ranks than cores
// share; kNuma: a rank has a whole node. kNone leaves the mask as it is.
Place choose_place(const Topology& topology, rendezvous::Bind bind, int local_rank,
                   std::size_t local_size);

// "cpus 0-3 of node 0", "not bound, cpus 0-7 of nodes 0-1".
std::string describe(const Topology& topology, const Place& place);

}  // namespace hv::launcher
