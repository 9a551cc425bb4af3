// The calling end of peer_service.h: who can be reached, how fast the way there is. Blocks.
#pragma once

#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

// Connects to all peers at once, to each by the best of its addresses that answers.
rendezvous::PeersReached reach_peers(const rendezvous::ReachPeers& order,
                                     const rendezvous::Secret& secret);

// Latency, then the bandwidth there, then back.
base::Result<rendezvous::PeerMeasured> measure_peer(const rendezvous::MeasurePeer& order,
                                                    const rendezvous::Secret& secret);

}  // namespace hv::launcher::diagnose
