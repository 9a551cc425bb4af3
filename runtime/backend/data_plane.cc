#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/endpoint.h"
#include "rendezvous/listen.h"
#include "runtime/backend/host_backend.h"
#include "runtime/transport/inproc_local_group.h"
#include "runtime/transport/inproc_transport.h"
#include "runtime/transport/memfd_local_group.h"
#include "runtime/transport/tcp_transport.h"

namespace hv::runtime {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// An abstract name that nobody else has.
base::Result<base::UniqueFd> listen_for_segments(const std::string& name) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto address = rendezvous::to_unix_address(name);
  if (!address) return base::fail(address.error());
  if (!fd || ::bind(fd.get(), address->get(), address->length) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return base::fail(base::system_error("cannot listen for the ranks of this host", errno));
  }
  return fd;
}

base::Result<rendezvous::Listening> listen_for_hosts(const DataListenerOptions& options) {
  rendezvous::ListenOptions listen;
  listen.loopback_only =
      !options.addresses.empty() &&
      std::all_of(options.addresses.begin(), options.addresses.end(), is_loopback);
  if (listen.loopback_only) listen.bind_address = options.addresses.front();
  listen.port_low = options.port_low;
  listen.port_high = options.port_high;
  auto listening = rendezvous::open_listening(listen);
  if (!listening || options.addresses.empty() || listen.loopback_only) return listening;
  const std::uint16_t port = listening->endpoints.front().port;
  listening->endpoints.clear();
  for (const auto& address : options.addresses) listening->endpoints.push_back({address, port});
  return listening;
}

std::string name_of(const rendezvous::PeerInfo& peer) {
  return "rank " + std::to_string(peer.rank) + " on " + peer.host + " (pid " +
         std::to_string(peer.pid) + ")";
}

}  // namespace

base::Result<DataListener> open_data_listener(const DataListenerOptions& options) {
  DataListener listener;
  listener.segment_name = "hv-" + rendezvous::Secret::random().hex().substr(0, 24);
  auto segments = listen_for_segments(listener.segment_name);
  if (!segments) return base::fail(segments.error());
  listener.segment_socket = std::move(*segments);
  if (options.across_hosts) {
    auto listening = listen_for_hosts(options);
    if (!listening) return base::fail(listening.error());
    listener.tcp = std::move(listening->sockets.front());
    listener.endpoints = std::move(listening->endpoints);
  }
  return listener;
}

base::Result<DataPlane> make_data_plane(DataListener listener,
                                        const std::vector<rendezvous::PeerInfo>& peers, int rank,
                                        const rendezvous::Secret& secret, base::Deadline deadline) {
  DataPlane plane;
  plane.topology = make_topology(peers, rank);
  const auto& local_ranks = plane.topology.local_ranks();
  if (local_ranks.size() == 1) {
    plane.local = make_inproc_local_groups(1).front();
  } else {
    LocalGroupOptions options;
    options.local_rank = plane.topology.local_rank;
    for (int r : local_ranks) options.names.push_back(name_of(peers[static_cast<std::size_t>(r)]));
    options.socket_name = peers[static_cast<std::size_t>(local_ranks.front())].segment_socket;
    if (rank == local_ranks.front()) options.listener = std::move(listener.segment_socket);
    auto group = make_memfd_local_group(std::move(options), secret, deadline);
    if (!group) return base::fail(group.error());
    plane.local = std::move(*group);
  }
  if (plane.topology.hosts.size() > 1) {
    auto transport = make_tcp_transport(std::move(listener.tcp), peers, rank, secret);
    if (!transport) return base::fail(transport.error());
    plane.transport = std::move(*transport);
  }
  return plane;
}

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
