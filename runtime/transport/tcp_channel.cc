#include "runtime/transport/tcp_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hv::runtime {
namespace {

constexpr std::size_t kReadAhead = 32 << 10;
constexpr std::size_t kMessagesAtOnce = 8;

bool is_would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

base::Error lost(std::string text, int sys) {
  return {base::Code::kPeerLost, std::move(text), {}, sys};
}

}  // namespace

TcpChannel::TcpChannel(base::UniqueFd socket, ChannelSink& sink)
    : socket_(std::move(socket)), sink_(sink), buffer_(kReadAhead) {}

base::Result<void> TcpChannel::flush() {
  blocked_ = false;
  for (;;) {
    if (output_.empty()) {
      auto piece = sink_.next_piece();
      if (!piece) return {};
      push(*piece);
    }
    std::array<iovec, 2 * kMessagesAtOnce> parts{};
    int used = 0;
    std::size_t total = 0;
    for (std::size_t i = 0; i < std::min(output_.size(), kMessagesAtOnce); ++i) {
      auto& [message, written] = output_[i];
      if (written < sizeof(WireHeader)) {
        parts[used++] = {reinterpret_cast<std::byte*>(&message.header) + written,
                         sizeof(WireHeader) - written};
        total += sizeof(WireHeader) - written;
      }
      const std::size_t sent = written - std::min(written, sizeof(WireHeader));
      if (sent < message.payload.size()) {
        parts[used++] = {const_cast<std::byte*>(message.payload.data()) + sent,
                         message.payload.size() - sent};
        total += message.payload.size() - sent;
      }
    }
    msghdr gather{};
    gather.msg_iov = parts.data();
    gather.msg_iovlen = static_cast<std::size_t>(used);
    const ssize_t n = ::sendmsg(socket_.get(), &gather, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && !is_would_block(errno)) {
      return base::fail(lost(std::string("sending failed: ") + std::strerror(errno), errno));
    }
    const std::size_t written = n < 0 ? 0 : static_cast<std::size_t>(n);
    advance(written);
    if (written < total) {
      blocked_ = true;
      return {};
    }
  }
}

void TcpChannel::advance(std::size_t written) {
  while (!output_.empty()) {
    Output& output = output_.front();
    const std::size_t size = sizeof(WireHeader) + output.message.payload.size();
    const std::size_t step = std::min(written, size - output.written);
    output.written += step;
    written -= step;
    if (output.written < size) return;
    const auto message = output.message;
    output_.pop();
    sink_.on_written(message.header, message.context);
  }
}

base::Result<bool> TcpChannel::fill(bool to_end) {
  bool any = false;
  for (;;) {
    // Payload goes straight to where it belongs; what follows it is read ahead.
    std::array<iovec, 2> parts{};
    int used = 0;
    if (!rest_.empty()) parts[used++] = {rest_.data(), rest_.size()};
    parts[used++] = {buffer_.data() + end_, buffer_.size() - end_};
    const std::size_t room = rest_.size() + buffer_.size() - end_;
    const ssize_t n = ::readv(socket_.get(), parts.data(), used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && is_would_block(errno)) return any;
    if (n == 0) return base::fail(lost("it closed the connection", 0));
    if (n < 0) return base::fail(lost(std::strerror(errno), errno));
    any = true;
    const auto got = static_cast<std::size_t>(n);
    const std::size_t direct = std::min(got, rest_.size());
    rest_ = rest_.subspan(direct);
    end_ += got - direct;
    if (auto fine = consume(); !fine) return base::fail(fine.error());
    if (got < room && !to_end) return any;  // empty now; saves asking
  }
}

base::Result<void> TcpChannel::consume() {
  for (;;) {
    if (header_) {
      const std::size_t step = std::min(rest_.size(), end_ - begin_);
      if (step > 0) std::memcpy(rest_.data(), buffer_.data() + begin_, step);
      rest_ = rest_.subspan(step);
      begin_ += step;
      if (!rest_.empty()) break;
      const WireHeader header = *header_;
      header_.reset();
      if (auto fine = sink_.on_payload(header); !fine) return fine;
    }
    if (end_ - begin_ < sizeof(WireHeader)) break;
    WireHeader header;
    std::memcpy(&header, buffer_.data() + begin_, sizeof header);
    begin_ += sizeof header;
    auto memory = sink_.on_header(header);
    if (!memory) return base::fail(memory.error());
    rest_ = *memory;
    header_ = header;
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {};
}

}  // namespace hv::runtime
