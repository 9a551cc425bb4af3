// Backend: runs batches. Kinds: host_backend (shared memory and TCP), nccl (a plugin).
//
// Thread: the baton holder's, except abort(). Batches are started in the order of their sequence on
// every rank; several may be in flight. Done runs exactly once per batch, from progress() or from
// start(), under the baton. Tensors are lent until then.
#pragma once

#include <functional>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"
#include "runtime/op.h"

namespace hv::runtime {

using Done = std::function<void(base::Result<void>)>;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual bool can_run(const Batch& batch) const = 0;
  virtual void start(Batch batch, Done done) = 0;
  // Never waits; true if anything has moved. The host backend moves the plane's Transport too, so
  // its owner need not.
  virtual bool progress() = 0;
  virtual bool idle() const = 0;  // nothing in flight
  virtual void abort(
      const base::Error& why) = 0;  // from any thread; pending Dones then run with it
};

}  // namespace hv::runtime
