// Transport: point to point messages between ranks. Nothing here blocks.
//
// Thread: the baton holder's, except abort(). Owner: whoever made it. Memory handed to send and
// recv is lent until its Pending is done or abort() has returned. Between two ranks messages with
// one tag arrive in the order sent; a recv matches a send of the same tag and must be as long
// (kMismatch otherwise). Tags with the top bit set belong to the data plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/error.h"

namespace hv::runtime {

using Tag = std::uint64_t;
inline constexpr Tag kDataPlaneTag = Tag{1} << 63;

// What a caller waits for: counts messages that are still under way. It belongs to the caller, who
// looks at it after progress(), whoever called that; it stays where it is until it is done. After
// abort() one more progress() finishes all of them.
struct Pending {
  std::uint32_t left = 0;
  const base::Error* error = nullptr;  // the first one; valid as long as the transport
  bool done() const { return left == 0; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Adds one message to `pending`. Neither waits nor fails at once: errors arrive in `pending`.
  virtual void send(int to, Tag tag, std::span<const std::byte> lent, Pending& pending) = 0;
  virtual void recv(int from, Tag tag, std::span<std::byte> lent, Pending& pending) = 0;
  // Moves bytes; true if any message has finished. Waits for something to do until the deadline at
  // most (a deadline that has passed: does not wait).
  virtual bool progress(base::Deadline deadline) = 0;
  // Readable when progress() has something to do, for a caller that sleeps on several things.
  virtual int wait_fd() const = 0;
  // Fails everything pending and everything later with `why`. From any thread.
  virtual void abort(const base::Error& why) = 0;
};

}  // namespace hv::runtime
