#include <algorithm>
#include <cstring>
#include <deque>

#include "runtime/link.h"

namespace hv::runtime {
namespace {

// A message is one packet of fixed size, length first, and the rest, if any, in a second send: a
// recv must know how long it is, and nearly all messages are short.
constexpr std::size_t kPacket = 512;
constexpr std::size_t kInline = kPacket - sizeof(std::uint32_t);
constexpr std::uint32_t kMaxMessage = 256u << 20;

class TransportLink final : public Link {
 public:
  TransportLink(std::shared_ptr<Transport> transport, int peer, Tag tag)
      : transport_(std::move(transport)), peer_(peer), tag_(tag), packet_(kPacket) {
    transport_->recv(peer_, tag_, packet_, incoming_);
  }

  void send(base::ByteSpan message) override {
    const std::size_t head = std::min(message.size(), kInline);
    Outgoing& out = sending_.emplace_back();
    out.packet.reserve(kPacket);
    base::Writer writer(out.packet);
    writer.put(static_cast<std::uint32_t>(message.size()));
    writer.append(message.first(head));
    out.packet.resize(kPacket);
    out.rest.assign(message.begin() + static_cast<std::ptrdiff_t>(head), message.end());
    transport_->send(peer_, tag_, out.packet, out.pending);
    if (!out.rest.empty()) transport_->send(peer_, tag_, out.rest, out.pending);
  }

  std::optional<base::Bytes> receive() override {
    if (received_.empty()) return std::nullopt;
    base::Bytes message = std::move(received_.front());
    received_.pop_front();
    return message;
  }

  base::Result<void> progress() override {
    while (!failure_ && incoming_.done()) {
      if (incoming_.error)
        failure_ = *incoming_.error;
      else
        on_received();
    }
    while (!sending_.empty() && sending_.front().pending.done()) {
      if (!failure_ && sending_.front().pending.error) failure_ = *sending_.front().pending.error;
      sending_.pop_front();
    }
    if (failure_) return base::fail(*failure_);
    return {};
  }

  bool flushed() const override { return sending_.empty(); }

 private:
  struct Outgoing {
    base::Bytes packet, rest;
    Pending pending;
  };

  void on_received() {
    if (whole_ == 0) {
      std::uint32_t length = 0;
      std::memcpy(&length, packet_.data(), sizeof length);
      if (length > kMaxMessage) {
        failure_ = base::Error{base::Code::kProtocol,
                               "negotiation with rank " + std::to_string(peer_) +
                                   ": a message of " + std::to_string(length) + " bytes",
                               {},
                               0};
        return;
      }
      const std::size_t head = std::min<std::size_t>(length, kInline);
      message_.assign(packet_.begin() + sizeof length,
                      packet_.begin() + static_cast<std::ptrdiff_t>(sizeof length + head));
      if (length > head) {
        whole_ = length;
        message_.resize(length);
        transport_->recv(peer_, tag_, std::span(message_).subspan(head), incoming_);
        return;
      }
    }
    whole_ = 0;
    received_.push_back(std::move(message_));
    message_.clear();
    transport_->recv(peer_, tag_, packet_, incoming_);
  }

  std::shared_ptr<Transport> transport_;
  const int peer_;
  const Tag tag_;
  std::deque<Outgoing> sending_;  // a deque: what is lent stays where it is
  base::Bytes packet_;
  base::Bytes message_;    // the rest of a long one is being received into it
  std::size_t whole_ = 0;  // its length; 0: the next packet starts a message
  Pending incoming_;
  std::deque<base::Bytes> received_;
  std::optional<base::Error> failure_;
};

}  // namespace

std::unique_ptr<Link> make_transport_link(std::shared_ptr<Transport> transport, int peer, Tag tag) {
  return std::make_unique<TransportLink>(std::move(transport), peer, tag);
}

}  // namespace hv::runtime
