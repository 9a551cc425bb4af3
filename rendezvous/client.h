// The client's end of the control plane, over plain sockets (no Asio: this goes into users'
// programs). dial() is also what agents use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"
#include "rendezvous/frame.h"
#include "rendezvous/messages.h"
#include "rendezvous/store.h"

namespace hv::rendezvous {

struct SealedConnection {  // handshake done; non-blocking TCP socket and the state of both
                           // directions
  base::UniqueFd socket;
  FrameEncoder encoder;
  FrameDecoder decoder;
  Endpoint remote;
  std::string local_address;
};

// Connects to all endpoints at once (numeric addresses) and keeps the first one that proves that it
// holds the secret. The error lists every address with its own reason.
base::Result<SealedConnection> dial(const std::vector<Endpoint>& endpoints, const Secret& secret,
                                    Purpose purpose, base::Deadline deadline);

// Connects to the agent (Unix socket) or the server (TCP), says RankHello and checks the welcome.
// Starts one thread, which ends with the object.
base::Result<std::unique_ptr<Store>> open_client_store(const Contract& contract,
                                                       base::Deadline deadline);

// A store inside one process. All objects made from one hub share their keys.
class LocalHub;
std::shared_ptr<LocalHub> make_local_hub(int size);
std::unique_ptr<Store> open_local_store(std::shared_ptr<LocalHub> hub, int rank);

}  // namespace hv::rendezvous
