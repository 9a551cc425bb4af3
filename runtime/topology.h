// Topology: where the ranks sit. A value.
#pragma once

#include <vector>

#include "rendezvous/messages.h"

namespace hv::runtime {

// Derived from the peer table (equal `identity` = one host).
struct Topology {
  int rank = 0, size = 1;
  int local_rank = 0;
  std::vector<std::vector<int>> hosts;  // ranks of each host, ascending; hosts by lowest rank
  std::vector<int> host_of;             // per rank
  std::vector<int> local_rank_of;       // per rank
  int my_host() const { return host_of[rank]; }
  const std::vector<int>& local_ranks() const { return hosts[my_host()]; }
};
Topology make_topology(const std::vector<rendezvous::PeerInfo>& peers, int rank);

}  // namespace hv::runtime
