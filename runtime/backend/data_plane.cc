#include <map>

#include "runtime/backend/host_backend.h"
#include "runtime/transport/inproc_local_group.h"
#include "runtime/transport/inproc_transport.h"

namespace hv::runtime {

std::vector<DataPlane> make_inproc_data_planes(const std::vector<int>& ranks_per_host,
                                               const Tuning& tuning) {
  std::vector<rendezvous::PeerInfo> peers;
  std::vector<std::shared_ptr<LocalGroup>> locals;
  for (std::size_t host = 0; host < ranks_per_host.size(); ++host) {
    for (auto& group : make_inproc_local_groups(ranks_per_host[host])) {
      rendezvous::PeerInfo peer;
      peer.rank = static_cast<int>(peers.size());
      peer.identity = peer.host = "h" + std::to_string(host);
      peers.push_back(std::move(peer));
      locals.push_back(std::move(group));
    }
  }
  const int size = static_cast<int>(peers.size());
  auto hub = ranks_per_host.size() > 1 ? make_inproc_hub(size) : nullptr;
  std::vector<DataPlane> planes;
  for (int rank = 0; rank < size; ++rank) {
    planes.push_back({make_topology(peers, rank), locals[rank],
                      hub ? make_inproc_transport(hub, rank) : nullptr, tuning});
  }
  return planes;
}

std::vector<DataPlane> make_inproc_data_planes(int size, int per_host, const Tuning& tuning) {
  std::vector<int> ranks_per_host;
  for (int left = size; left > 0; left -= per_host) {
    ranks_per_host.push_back(std::min(left, per_host));
  }
  return make_inproc_data_planes(ranks_per_host, tuning);
}

}  // namespace hv::runtime
