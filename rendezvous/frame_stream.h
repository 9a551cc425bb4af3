// Frames over one file descriptor (or a pair of pipes), for a poll loop: what is sent waits in a
// buffer until the descriptor takes it, what is read becomes frames.
//
// Thread: one at a time; never blocks. Owner: owns the descriptors and makes them non-blocking;
// whoever uses pipes ignores SIGPIPE (sockets never raise it here).
// Failure: the first error ends the stream; frames that came before it are still handed out.
#pragma once

#include <cstddef>
#include <optional>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/frame.h"

namespace hv::rendezvous {

class FrameStream {
 public:
  explicit FrameStream(base::UniqueFd socket, FrameEncoder encoder = {}, FrameDecoder decoder = {});
  FrameStream(base::UniqueFd in, base::UniqueFd out);  // two pipes, in clear

  int in_fd() const { return in_.get(); }
  int out_fd() const { return out_ ? out_.get() : in_.get(); }

  void send(const Frame& frame) { encoder_.encode(frame, outgoing_); }
  std::size_t queued() const { return outgoing_.size() - written_; }  // poll for POLLOUT if > 0

  // Writes what the descriptor takes now.
  base::Result<void> on_writable();
  // Reads what there is, a bounded amount at a time; then ask next() until it yields nothing. An
  // error (kPeerLost at the end of the stream) comes after the last bytes, so drain next() first.
  base::Result<void> on_readable();
  base::Result<std::optional<Frame>> next() { return decoder_.next(); }

 private:
  void drop_written();

  base::UniqueFd in_, out_;  // out_ is empty for a socket
  bool socket_;
  FrameEncoder encoder_;
  FrameDecoder decoder_;
  base::Bytes outgoing_;
  std::size_t written_ = 0;  // of outgoing_
};

}  // namespace hv::rendezvous
