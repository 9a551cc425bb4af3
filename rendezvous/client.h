// The client's end of the control plane, over plain sockets (no Asio: this goes into users'
// programs). dial() is also what agents use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"
#include "rendezvous/frame_stream.h"
#include "rendezvous/messages.h"
#include "rendezvous/store.h"

namespace hv::rendezvous {

struct SealedConnection {  // handshake done, both directions sealed
  FrameStream stream;
  Endpoint remote;
  std::string local_address;  // ours, on the interface that leads there
};

// Connects to all endpoints at once (numeric addresses) and keeps the first one that proves that it
// holds the secret. The error lists every address with its own reason.
base::Result<SealedConnection> dial(const std::vector<Endpoint>& endpoints, const Secret& secret,
                                    Purpose purpose, base::Deadline deadline);

// Connects to the agent (Unix socket) or the server (TCP), says RankHello and checks the welcome.
// Starts one thread, which ends with the object. On the agent's socket the same handshake is made
// as on TCP (Purpose::kRank, the ranks' secret; the agent answers with ServerHandshake), then
// frames follow in clear: they stay in this machine's kernel.
base::Result<std::unique_ptr<Store>> open_client_store(const Contract& contract,
                                                       base::Deadline deadline);

// A store inside one process. All objects made from one hub share their keys.
class LocalHub;
std::shared_ptr<LocalHub> make_local_hub(int size);
std::unique_ptr<Store> open_local_store(std::shared_ptr<LocalHub> hub, int rank);

}  // namespace hv::rendezvous
