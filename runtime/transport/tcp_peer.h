// TcpPeer: matches sends and receives with one other rank. No socket: channels carry its bytes.
//
// Thread: the transport's lock; Pendings are written by the caller of send, recv and progress only.
// Owner: the transport. Failure: once it has an error, everything pending and later ends with it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/tcp_channel.h"
#include "runtime/transport/transport.h"

namespace hv::runtime {

class TcpPeer final : public ChannelSink {
 public:
  // `name`: for errors, "rank 3 on h2". `finished` counts the messages of all peers that have
  // ended.
  TcpPeer(std::string name, std::uint64_t& finished)
      : name_(std::move(name)), finished_(finished) {}

  void send(Tag tag, std::span<const std::byte> lent, Pending& pending);
  void recv(Tag tag, std::span<std::byte> lent, Pending& pending);
  // Ends everything with this; the first one stays. The memory is not touched any more.
  void fail(const base::Error& error);
  const base::Error* error() const { return error_.get(); }
  bool has_pending() const { return !sends_.empty() || !receives_.empty() || !eager_.empty(); }
  const std::string& name() const { return name_; }

  // Messages for channel 0, in order; the transport hands them to it when it is open.
  Fifo<Outgoing>& control() { return control_; }
  // Too many bytes wait for a receive: channel 0 is not read until some are taken.
  bool is_full() const { return unexpected_bytes_ > kMaxUnexpected; }

  base::Result<std::span<std::byte>> on_header(const WireHeader& header) override;
  base::Result<void> on_payload(const WireHeader& header) override;
  void on_written(const WireHeader& header, void* context) override;
  std::optional<Outgoing> next_piece() override;

 private:
  static constexpr std::size_t kMaxUnexpected = 64u << 20;

  struct LongSend {
    std::uint64_t number;
    Tag tag;
    std::span<const std::byte> lent;
    Pending* pending;
    std::uint64_t receive = 0;  // the receiver's number; 0: not granted yet
    std::size_t handed_out = 0, written = 0;
  };
  struct Receive {
    std::uint64_t number;
    Tag tag;
    std::span<std::byte> lent;
    Pending* pending;
    std::size_t arrived = 0;
    bool matched = false;  // with an eager message or an announcement
  };
  struct Unexpected {  // an eager message or an announcement without a receive
    Tag tag = 0;
    std::size_t bytes = 0;
    bool announced = false;
    std::vector<std::byte> data;
    bool complete = false;
    std::uint64_t receive = 0;  // posted while the bytes were still coming in
  };

  void finish(Pending& pending, const base::Error* error);
  base::Error mismatch(std::size_t sent, std::size_t expected) const;
  Receive* find_receive(std::uint64_t number);
  Receive* find_unmatched(Tag tag);
  void finish_if_complete(Receive& receive);
  bool take_unexpected(Receive& receive);
  void grant(const Receive& receive);
  void use_grant(LongSend& send, const WireHeader& header);
  void recycle(std::list<Unexpected>::iterator unexpected);
  base::Result<std::span<std::byte>> on_eager(const WireHeader& header);
  base::Result<std::span<std::byte>> on_announce(const WireHeader& header);
  base::Result<std::span<std::byte>> on_grant(const WireHeader& header);
  base::Result<std::span<std::byte>> on_piece(const WireHeader& header);

  const std::string name_;
  std::uint64_t& finished_;
  std::unique_ptr<base::Error> error_;
  Fifo<Outgoing> control_;
  std::vector<LongSend> sends_;
  std::vector<WireHeader> early_grants_;
  std::vector<Receive> receives_;
  std::list<Unexpected> unexpected_, spare_;  // spare: for the memory
  std::vector<Pending*> eager_;               // handed to control_, not written yet
  std::size_t unexpected_bytes_ = 0;
  std::uint64_t next_number_ = 1;
  // Where the eager payload that is being read goes to: a receive, or an unexpected message.
  std::uint64_t filling_ = 0;
  Unexpected* filling_unexpected_ = nullptr;
};

}  // namespace hv::runtime
