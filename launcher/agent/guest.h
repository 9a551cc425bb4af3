// A connection to the agent: from a rank of its host, or from an agent that it relays. It proves
// that it holds a secret (hello and proof, of fixed sizes); then it brings frames.
//
// Thread: the agent's. Owner: whoever accepted it. Failure: it is over; nothing else.
#pragma once

#include <functional>
#include <optional>

#include "launcher/agent/poller.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/frame_stream.h"

namespace hv::launcher {

class Guest {
 public:
  struct Terms {
    rendezvous::Purpose purpose;
    rendezvous::Secret secret;
    bool sealed;  // what follows the handshake
  };
  using OnFrame = std::function<void(rendezvous::Frame)>;
  Guest(base::UniqueFd socket, const Terms& terms, OnFrame on_frame);

  bool is_stranger() const { return !stream_; }  // has not proven anything
  bool is_over() const { return over_; }
  bool closed_by_peer() const { return over_ && stream_ && !closing_; }
  bool is_written() const { return over_ || !stream_ || stream_->queued() == 0; }

  void watch(Poller& poller, bool may_read);
  void send(const rendezvous::Frame& frame);
  void close_when_written();
  void drop() { over_ = true; }

 private:
  void shake_hands();
  void move_frames(short revents);
  void flush();

  base::UniqueFd socket_;  // until the handshake is done
  bool sealed_;
  OnFrame on_frame_;
  rendezvous::ServerHandshake handshake_;
  base::Bytes received_;
  bool proving_ = false;
  base::Clock::time_point deadline_;
  std::optional<rendezvous::FrameStream> stream_;
  bool closing_ = false;  // after what is queued
  bool over_ = false;
};

}  // namespace hv::launcher
