#include "runtime/transport/tcp_peer.h"

#include <algorithm>
#include <cstring>

namespace hv::runtime {

using base::Code;
using base::Error;
using base::Result;

void TcpPeer::send(Tag tag, std::span<const std::byte> lent, Pending& pending) {
  pending.left += 1;
  if (error_) return finish(pending, error_.get());
  if (lent.size() <= kEagerBytes) {
    eager_.push_back(&pending);
    control_.push(
        {{WireKind::kEager, static_cast<std::uint32_t>(lent.size()), tag, 0, 0}, lent, &pending});
    return;
  }
  sends_.push_back({next_number_++, tag, lent, &pending});
  control_.push({{WireKind::kAnnounce, 0, tag, 0, lent.size()}, {}, nullptr});
  auto it = std::find_if(early_grants_.begin(), early_grants_.end(),
                         [&](const WireHeader& g) { return g.tag == tag; });
  if (it == early_grants_.end()) return;
  const WireHeader header = *it;
  early_grants_.erase(it);
  use_grant(sends_.back(), header);
}

void TcpPeer::recv(Tag tag, std::span<std::byte> lent, Pending& pending) {
  pending.left += 1;
  if (error_ && unexpected_.empty()) return finish(pending, error_.get());
  receives_.push_back({next_number_++, tag, lent, &pending});
  Receive& receive = receives_.back();
  if (take_unexpected(receive)) return;
  if (error_) {  // what had arrived before could be taken; nothing more comes
    finish(pending, error_.get());
    receives_.pop_back();
    return;
  }
  if (lent.size() > kEagerBytes) grant(receive);
}

// Matches a new receive with the oldest message of its tag, if one is here. May end the receive.
bool TcpPeer::take_unexpected(Receive& receive) {
  auto it = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Unexpected& u) {
    return u.tag == receive.tag && u.receive == 0;
  });
  if (it == unexpected_.end()) return false;
  if (it->bytes != receive.lent.size()) {
    fail(mismatch(it->bytes, receive.lent.size()));
    return true;
  }
  receive.matched = true;
  if (it->announced) {
    recycle(it);
    grant(receive);
  } else if (it->complete) {
    if (it->bytes > 0) std::memcpy(receive.lent.data(), it->data.data(), it->bytes);
    receive.arrived = it->bytes;
    recycle(it);
    finish_if_complete(receive);
  } else {
    it->receive = receive.number;
  }
  return true;
}

void TcpPeer::recycle(std::list<Unexpected>::iterator unexpected) {
  unexpected_bytes_ -= unexpected->data.size();
  unexpected->data.clear();
  spare_.splice(spare_.begin(), unexpected_, unexpected);
}

void TcpPeer::grant(const Receive& receive) {
  control_.push(
      {{WireKind::kGrant, 0, receive.tag, receive.number, receive.lent.size()}, {}, nullptr});
}

void TcpPeer::use_grant(LongSend& send, const WireHeader& header) {
  if (header.extent != send.lent.size()) return fail(mismatch(send.lent.size(), header.extent));
  send.receive = header.receive;
}

void TcpPeer::fail(const Error& error) {
  if (error_) return;
  error_ = std::make_unique<Error>(error);
  for (auto& send : sends_) finish(*send.pending, error_.get());
  for (auto& receive : receives_) finish(*receive.pending, error_.get());
  for (auto* pending : eager_) finish(*pending, error_.get());
  sends_.clear();
  receives_.clear();
  eager_.clear();
  control_.clear();
  std::erase_if(unexpected_, [](const Unexpected& u) { return u.announced || !u.complete; });
}

void TcpPeer::finish(Pending& pending, const Error* error) {
  pending.left -= 1;
  if (error && !pending.error) pending.error = error;
  ++finished_;
}

Error TcpPeer::mismatch(std::size_t sent, std::size_t expected) const {
  return {Code::kMismatch,
          "a message between this rank and " + name_ + " has " + std::to_string(sent) +
              " bytes where the receiver expects " + std::to_string(expected) +
              "; all ranks must make the same calls with the same sizes",
          {},
          0};
}

TcpPeer::Receive* TcpPeer::find_receive(std::uint64_t number) {
  auto it = std::find_if(receives_.begin(), receives_.end(),
                         [&](const Receive& r) { return r.number == number; });
  return it == receives_.end() ? nullptr : &*it;
}

TcpPeer::Receive* TcpPeer::find_unmatched(Tag tag) {
  auto it = std::find_if(receives_.begin(), receives_.end(),
                         [&](const Receive& r) { return r.tag == tag && !r.matched; });
  return it == receives_.end() ? nullptr : &*it;
}

void TcpPeer::finish_if_complete(Receive& receive) {
  if (!receive.matched || receive.arrived < receive.lent.size()) return;
  finish(*receive.pending, nullptr);
  receives_.erase(receives_.begin() + (&receive - receives_.data()));
}

Result<std::span<std::byte>> TcpPeer::on_header(const WireHeader& header) {
  switch (header.kind) {
    case WireKind::kEager:
      return on_eager(header);
    case WireKind::kAnnounce:
      return on_announce(header);
    case WireKind::kGrant:
      return on_grant(header);
    case WireKind::kPiece:
      return on_piece(header);
  }
  return base::fail(Code::kProtocol, "it speaks something else");
}

Result<std::span<std::byte>> TcpPeer::on_eager(const WireHeader& header) {
  if (header.payload > kEagerBytes) return base::fail(Code::kProtocol, "an eager message too long");
  filling_ = 0;
  filling_unexpected_ = nullptr;
  if (Receive* receive = find_unmatched(header.tag)) {
    if (receive->lent.size() != header.payload) {
      return base::fail(mismatch(header.payload, receive->lent.size()));
    }
    receive->matched = true;
    filling_ = receive->number;
    return receive->lent;
  }
  if (spare_.empty()) spare_.emplace_back();
  unexpected_.splice(unexpected_.end(), spare_, spare_.begin());
  Unexpected& u = unexpected_.back();
  u.tag = header.tag;
  u.bytes = header.payload;
  u.announced = u.complete = false;
  u.receive = 0;
  u.data.resize(header.payload);
  unexpected_bytes_ += header.payload;
  filling_unexpected_ = &u;
  return std::span<std::byte>(u.data);
}

Result<std::span<std::byte>> TcpPeer::on_announce(const WireHeader& header) {
  if (Receive* receive = find_unmatched(header.tag)) {
    if (receive->lent.size() != header.extent) {
      return base::fail(mismatch(header.extent, receive->lent.size()));
    }
    receive->matched = true;
    finish_if_complete(*receive);
    return std::span<std::byte>();
  }
  if (spare_.empty()) spare_.emplace_back();
  unexpected_.splice(unexpected_.end(), spare_, spare_.begin());
  Unexpected& u = unexpected_.back();
  u.tag = header.tag;
  u.bytes = header.extent;
  u.announced = true;
  u.complete = false;
  u.receive = 0;
  return std::span<std::byte>();
}

Result<std::span<std::byte>> TcpPeer::on_grant(const WireHeader& header) {
  auto it = std::find_if(sends_.begin(), sends_.end(),
                         [&](const LongSend& s) { return s.tag == header.tag && s.receive == 0; });
  if (it == sends_.end()) {
    early_grants_.push_back(header);
  } else {
    use_grant(*it, header);
  }
  return std::span<std::byte>();
}

Result<std::span<std::byte>> TcpPeer::on_piece(const WireHeader& header) {
  Receive* receive = find_receive(header.receive);
  if (!receive || header.extent > receive->lent.size() ||
      header.payload > receive->lent.size() - header.extent) {
    return base::fail(Code::kProtocol, "it sent bytes that nobody waits for");
  }
  return receive->lent.subspan(header.extent, header.payload);
}

Result<void> TcpPeer::on_payload(const WireHeader& header) {
  if (error_) return base::fail(*error_);
  if (header.kind == WireKind::kPiece) {
    if (Receive* receive = find_receive(header.receive)) {
      receive->arrived += header.payload;
      finish_if_complete(*receive);
    }
  } else if (header.kind == WireKind::kEager && filling_ != 0) {
    if (Receive* receive = find_receive(std::exchange(filling_, 0))) {
      receive->arrived = header.payload;
      finish_if_complete(*receive);
    }
  } else if (header.kind == WireKind::kEager) {
    Unexpected& u = *std::exchange(filling_unexpected_, nullptr);
    u.complete = true;
    if (u.receive == 0) return {};
    Receive* receive = find_receive(u.receive);
    if (u.bytes > 0) std::memcpy(receive->lent.data(), u.data.data(), u.bytes);
    receive->arrived = u.bytes;
    finish_if_complete(*receive);
    recycle(std::find_if(unexpected_.begin(), unexpected_.end(),
                         [&](const Unexpected& other) { return &other == &u; }));
  }
  return {};
}

void TcpPeer::on_written(const WireHeader& header, void* context) {
  if (error_) return;
  if (header.kind == WireKind::kEager) {
    auto* pending = static_cast<Pending*>(context);
    eager_.erase(std::find(eager_.begin(), eager_.end(), pending));
    finish(*pending, nullptr);
  } else if (header.kind == WireKind::kPiece) {
    const auto number = reinterpret_cast<std::uintptr_t>(context);
    auto it = std::find_if(sends_.begin(), sends_.end(),
                           [&](const LongSend& s) { return s.number == number; });
    it->written += header.payload;
    if (it->written < it->lent.size()) return;
    finish(*it->pending, nullptr);
    sends_.erase(it);
  }
}

std::optional<ChannelSink::Outgoing> TcpPeer::next_piece() {
  for (auto& send : sends_) {
    if (send.receive == 0 || send.handed_out == send.lent.size()) continue;
    const std::size_t bytes = std::min(kPieceBytes, send.lent.size() - send.handed_out);
    const Outgoing piece{
        {WireKind::kPiece, static_cast<std::uint32_t>(bytes), 0, send.receive, send.handed_out},
        send.lent.subspan(send.handed_out, bytes),
        reinterpret_cast<void*>(static_cast<std::uintptr_t>(send.number))};
    send.handed_out += bytes;
    return piece;
  }
  return std::nullopt;
}

}  // namespace hv::runtime
