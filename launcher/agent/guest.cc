#include "launcher/agent/guest.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hv::launcher {

using rendezvous::Purpose;
using namespace std::chrono_literals;

namespace {

constexpr auto kHandshakeTime = 5s;
// A guest that lets more than this wait does not read: its queue must not take this host's memory.
constexpr std::size_t kMaxQueued = 2 * rendezvous::kMaxFrame;

}  // namespace

Guest::Guest(base::UniqueFd socket, const Terms& terms, OnFrame on_frame)
    : socket_(std::move(socket)),
      sealed_(terms.sealed),
      on_frame_(std::move(on_frame)),
      handshake_([terms](Purpose purpose) {
        return purpose == terms.purpose ? std::optional(terms.secret) : std::nullopt;
      }),
      deadline_(base::Clock::now() + kHandshakeTime) {}

void Guest::watch(Poller& poller, bool may_read) {
  if (!stream_) {
    poller.wake_at(deadline_);
    if (base::Clock::now() >= deadline_) over_ = true;
    if (!over_) poller.watch(socket_.get(), POLLIN, [this](short) { shake_hands(); });
    return;
  }
  short events = static_cast<short>((may_read && !closing_ ? POLLIN : 0) |
                                    (stream_->queued() > 0 ? POLLOUT : 0));
  poller.watch(stream_->in_fd(), events, [this](short revents) { move_frames(revents); });
}

void Guest::send(const rendezvous::Frame& frame) {
  if (!stream_ || over_) return;
  stream_->send(frame);
  flush();
  if (stream_->queued() > kMaxQueued) over_ = true;
}

void Guest::close_when_written() {
  if (!stream_ || over_) return;
  closing_ = true;
  flush();
}

void Guest::shake_hands() {
  std::size_t need = proving_ ? rendezvous::kProofSize : rendezvous::kHelloSize;
  std::size_t had = received_.size();
  received_.resize(need);
  ssize_t got = ::recv(socket_.get(), received_.data() + had, need - had, MSG_DONTWAIT);
  received_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) over_ = true;
  if (over_ || received_.size() < need) return;
  if (proving_) {
    over_ = !handshake_.on_proof(received_);
    if (over_) return;
    rendezvous::FrameEncoder encoder;
    rendezvous::FrameDecoder decoder;
    if (sealed_) {
      encoder.seal_with(handshake_.make_sealer());
      decoder.open_with(handshake_.make_opener());
    }
    stream_.emplace(std::move(socket_), std::move(encoder), std::move(decoder));
  } else {
    auto reply = handshake_.on_hello(received_);
    over_ = !reply || ::send(socket_.get(), reply->data(), reply->size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(reply->size());
    proving_ = true;
  }
  received_.clear();
}

void Guest::move_frames(short revents) {
  if ((revents & POLLOUT) != 0) flush();
  if ((revents & (POLLIN | POLLHUP | POLLERR)) == 0 || over_) return;
  const bool ended = !stream_->on_readable();
  while (!over_) {
    auto frame = stream_->next();
    over_ |= !frame;
    if (!frame || !*frame) break;
    on_frame_(std::move(**frame));
  }
  over_ |= ended;
}

void Guest::flush() {
  if (!stream_->on_writable() || (closing_ && stream_->queued() == 0)) over_ = true;
}

}  // namespace hv::launcher
