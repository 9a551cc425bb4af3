// Link: ordered messages between two negotiators. Kinds: ring_link (two ranks of a host),
// transport_link (leader and coordinator), and a plain queue in tests.
//
// Thread: the baton holder's. Nothing blocks: send() queues what does not fit yet. A failed link
// says so in progress() from then on.
#pragma once

#include <memory>
#include <optional>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "runtime/ring.h"
#include "runtime/transport/local_group.h"
#include "runtime/transport/transport.h"

namespace hv::runtime {

class Link {
 public:
  virtual ~Link() = default;
  virtual void send(base::ByteSpan message) = 0;
  virtual std::optional<base::Bytes> receive() = 0;  // the next whole message
  virtual base::Result<void> progress() = 0;         // moves what is queued
  virtual bool flushed() const = 0;                  // nothing of ours is left here
};

// `out` and `in` lie in `memory`, shared with local rank `peer`, whose doorbell rings for news.
std::unique_ptr<Link> make_ring_link(std::shared_ptr<LocalGroup> local, Segment memory, int peer,
                                     Ring out, Ring in);

// Its buffers are lent to the transport until that has been aborted and has made progress once.
std::unique_ptr<Link> make_transport_link(std::shared_ptr<Transport> transport, int peer, Tag tag);

}  // namespace hv::runtime
