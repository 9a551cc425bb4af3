// Transport over TCP: non-blocking sockets under one epoll, connected when first used (the higher
// rank connects to the lower), several per peer.
#pragma once

#include <memory>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/messages.h"
#include "runtime/transport/transport.h"

namespace hv::runtime {

// `listener`: where lower ranks are connected to; may be empty where no higher rank is elsewhere.
base::Result<std::unique_ptr<Transport>> make_tcp_transport(base::UniqueFd listener,
                                                            std::vector<rendezvous::PeerInfo> peers,
                                                            int rank,
                                                            const rendezvous::Secret& secret);

}  // namespace hv::runtime
