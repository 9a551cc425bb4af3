// ServerThread: a rendezvous server in a thread of its own, for ranks that no launcher has started.
// Rank 0's process holds it. Where hvrun would judge an event, this one is simple: a rank that is
// lost, or reports a fault, ends the epoch for all.
//
// Thread: its own; the methods may be called by any. Owner: the world of rank 0, and its end waits,
// some seconds at most, for every rank that has come to go: they are answered until then. Failure:
// kUsage or kSystem when no port can be opened.
#pragma once

#include <memory>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/listen.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

class ServerThread {
 public:
  static base::Result<std::unique_ptr<ServerThread>> start(int size, const ListenOptions& listen);
  virtual ~ServerThread() = default;

  virtual std::vector<Endpoint> endpoints() const = 0;
  virtual Secret rank_secret() const = 0;
};

}  // namespace hv::rendezvous
