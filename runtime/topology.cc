#include "runtime/topology.h"

#include <algorithm>
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
    t.ranks.push_back(r);
  }
  t.local_rank = t.local_rank_of[rank];
  t.group_rank_of = t.local_rank_of;
  return t;
}

int Topology::index_of(int one) const {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), one);
  return found != ranks.end() && *found == one ? static_cast<int>(found - ranks.begin()) : -1;
}

Topology subset(const Topology& world, const std::vector<int>& ranks) {
  Topology t;
  t.rank = world.rank;
  t.size = static_cast<int>(ranks.size());
  t.ranks = ranks;
  t.group_rank_of = world.group_rank_of;
  t.host_of.assign(world.host_of.size(), -1);
  t.local_rank_of.assign(world.host_of.size(), -1);
  std::map<int, std::size_t> index_of;
  for (int r : ranks) {
    auto [it, is_new] = index_of.try_emplace(world.host_of[r], t.hosts.size());
    if (is_new) t.hosts.emplace_back();
    t.host_of[r] = static_cast<int>(it->second);
    t.local_rank_of[r] = static_cast<int>(t.hosts[it->second].size());
    t.hosts[it->second].push_back(r);
  }
  t.local_rank = t.local_rank_of[t.rank];
  return t;
}

}  // namespace hv::runtime
