// TcpChannel: one connected, authenticated socket to a peer: headers and lent memory out, headers
// and memory that the sink names in.
//
// Thread: the transport's lock. Owner: the transport. Failure: flush() and fill() return the error
// of the socket; the channel is then of no further use.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "runtime/transport/fifo.h"
#include "runtime/transport/tcp_wire.h"

namespace hv::runtime {

// Where incoming bytes go, and what finished output means.
class ChannelSink {
 public:
  // Memory for the header's payload (as long as that); an error ends the connection.
  virtual base::Result<std::span<std::byte>> on_header(const WireHeader& header) = 0;
  virtual base::Result<void> on_payload(const WireHeader& header) = 0;
  virtual void on_written(const WireHeader& header, void* context) = 0;
  // The next piece for a channel that could write more, if there is one.
  struct Outgoing {
    WireHeader header;
    std::span<const std::byte> payload;
    void* context = nullptr;
  };
  virtual std::optional<Outgoing> next_piece() = 0;

 protected:
  ~ChannelSink() = default;
};

class TcpChannel {
 public:
  TcpChannel(base::UniqueFd socket, ChannelSink& sink);

  int fd() const { return socket_.get(); }
  void push(const ChannelSink::Outgoing& message) { output_.push({message, 0}); }
  // Writes what the socket takes. blocked() then tells whether to wait until it is writable.
  base::Result<void> flush();
  bool blocked() const { return blocked_; }
  // Reads what is there; true if anything was. kPeerLost at its end, which is noticed for sure only
  // with `to_end`.
  base::Result<bool> fill(bool to_end);

 private:
  struct Output {
    ChannelSink::Outgoing message;
    std::size_t written = 0;  // of header and payload together
  };
  void advance(std::size_t written);
  base::Result<void> consume();

  base::UniqueFd socket_;
  ChannelSink& sink_;
  Fifo<Output> output_;
  bool blocked_ = false;

  std::vector<std::byte> buffer_;  // bytes read ahead: headers and short payloads
  std::size_t begin_ = 0, end_ = 0;
  std::optional<WireHeader> header_;  // of the payload being read
  std::span<std::byte> rest_;         // of its memory
};

}  // namespace hv::runtime
