// The client's connect and handshake over a socket, as dial() and the client store use them.
//
// Thread: the caller's. Owns its socket. Failure: result() says why; nothing throws or blocks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/frame_stream.h"

namespace hv::rendezvous {

// One address that is being tried.
class Attempt {
 public:
  Attempt(std::string name, const base::Result<SocketAddress>& target, const Secret& secret,
          Purpose purpose);

  const std::string& name() const { return name_; }
  bool under_way() const { return !error_ && !proven_; }
  bool proven() const { return proven_; }  // the server holds the secret; it has our proof
  const std::optional<base::Error>& error() const { return error_; }
  int fd() const { return socket_.get(); }
  short events() const;  // to poll for
  void on_event();

  FrameStream take_stream(bool sealed);                        // once proven; or
  base::UniqueFd take_socket() { return std::move(socket_); }  // for bytes in clear

 private:
  enum class Stage : std::uint8_t { kConnecting, kReply };
  void start(const base::Result<SocketAddress>& target);
  void on_connected();
  void on_reply();
  bool write_whole(base::ByteSpan bytes);
  void fail(base::Error error);
  void fail(int sys);

  std::string name_;
  ClientHandshake handshake_;
  base::UniqueFd socket_;
  Stage stage_ = Stage::kConnecting;
  base::Bytes reply_;
  bool proven_ = false;
  std::optional<base::Error> error_;
};

// Runs all until the first is proven, and returns it; or fails with the reason of each.
base::Result<Attempt*> first_proven(std::span<Attempt> attempts, base::Deadline deadline);

}  // namespace hv::rendezvous
