#include "runtime/negotiator.h"

namespace hv::runtime {
namespace {

constexpr Tag kTag = 1;
constexpr std::size_t kRingBytes = 64 * 1024;  // with its header; the rest of a burst queues

// A rank's part of the segment: its way up to the leader, then the leader's way down to it.
Ring ring_of(const Segment& segment, int local_rank, bool down) {
  return Ring(segment.part(local_rank).subspan(down ? kRingBytes : 0, kRingBytes));
}

}  // namespace

base::Result<NegotiatorLinks> make_negotiator_links(const DataPlane& plane,
                                                    base::Deadline deadline) {
  NegotiatorLinks links;
  const Topology& topology = plane.topology;
  const int local = topology.local_rank;
  if (topology.local_ranks().size() > 1) {
    auto segment = plane.local->segment("negotiation", 2 * kRingBytes, deadline);
    if (!segment) return base::fail(segment.error());
    if (local != 0) {
      links.up = make_ring_link(plane.local, *segment, 0, ring_of(*segment, local, false),
                                ring_of(*segment, local, true));
    } else {
      links.locals.resize(topology.local_ranks().size());
      for (int peer = 1; peer < static_cast<int>(links.locals.size()); ++peer) {
        links.locals[peer] =
            make_ring_link(plane.local, *segment, peer, ring_of(*segment, peer, true),
                           ring_of(*segment, peer, false));
      }
    }
  }
  if (topology.rank == 0) {
    links.hosts.resize(topology.hosts.size());
    for (std::size_t host = 1; host < topology.hosts.size(); ++host) {
      links.hosts[host] = make_transport_link(plane.transport, topology.hosts[host].front(), kTag);
    }
  } else if (local == 0) {
    links.up = make_transport_link(plane.transport, 0, kTag);
  }
  return links;
}

}  // namespace hv::runtime
