// Topology: where the ranks sit: those of the world, or those of one process set. A value. Ranks
// are always numbered as in the world.
#pragma once

#include <vector>

#include "rendezvous/messages.h"

namespace hv::runtime {

// Derived from the peer table (equal `identity` = one host).
struct Topology {
  int rank = 0;
  int size = 1;  // ranks here
  int local_rank = 0;
  std::vector<int> ranks;               // that are here, ascending
  std::vector<std::vector<int>> hosts;  // ranks of each host, ascending; hosts by lowest rank
  std::vector<int> host_of;             // per rank of the world; -1: not here
  std::vector<int> local_rank_of;       // per rank of the world; -1: not here
  std::vector<int> group_rank_of;       // per rank of the world: in the LocalGroup of its host
  int my_host() const { return host_of[rank]; }
  const std::vector<int>& local_ranks() const { return hosts[my_host()]; }
  int index() const { return index_of(rank); }
  int index_of(int one) const;  // among `ranks`; -1: not here
};
Topology make_topology(const std::vector<rendezvous::PeerInfo>& peers, int rank);
// Of some of its ranks, ascending, among them this one.
Topology subset(const Topology& world, const std::vector<int>& ranks);

}  // namespace hv::runtime
