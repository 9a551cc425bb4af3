#include "runtime/topology.h"

#include <map>
#include <string>

namespace hv::runtime {

Topology make_topology(const std::vector<rendezvous::PeerInfo>& peers, int rank) {
  Topology t;
  t.rank = rank;
  t.size = static_cast<int>(peers.size());
  std::map<std::string, std::size_t> index_of;
  for (int r = 0; r < t.size; ++r) {
    const auto& identity = peers[r].identity;
    auto [it, is_new] = index_of.try_emplace(identity, t.hosts.size());
    if (is_new) t.hosts.emplace_back();
    auto& ranks = t.hosts[it->second];
    t.host_of.push_back(static_cast<int>(it->second));
    t.local_rank_of.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(r);
  }
  t.local_rank = t.local_rank_of[rank];
  return t;
}

}  // namespace hv::runtime
