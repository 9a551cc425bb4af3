// Transport: point to point messages between ranks. Nothing here blocks.
//
// Thread: the baton holder's, except abort(). Owner: whoever made it. Memory handed to send and
// recv is lent until its OpId is completed or abort() has returned. Between two ranks messages with
// one tag arrive in the order sent; a recv matches a send of the same tag and must be as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/error.h"

namespace hv::runtime {

using Tag = std::uint64_t;
using OpId = std::uint64_t;  // 0 is never used

struct Completion {
  OpId id = 0;
  base::Error const* error = nullptr;  // null: fine; else valid as long as the transport
};
using Completions = std::span<const Completion>;  // valid until the next call of progress()

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual OpId send(int to, Tag tag, std::span<const std::byte> lent) = 0;
  virtual OpId recv(int from, Tag tag, std::span<std::byte> lent) = 0;
  // Moves bytes and returns what has completed; waits for something to do until the deadline at
  // most (a deadline that has passed: does not wait).
  virtual Completions progress(base::Deadline deadline) = 0;
  // Readable when progress() has something to do, for a caller that sleeps on several things; -1
  // if there is no such descriptor (inproc: never sleeps on its own).
  virtual int wait_fd() const = 0;
  // Fails everything pending and everything later with `why`. From any thread.
  virtual void abort(const base::Error& why) = 0;
};

}  // namespace hv::runtime
