#include "launcher/agent/rank_gate.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "rendezvous/endpoint.h"
#include "rendezvous/frame_stream.h"

namespace hv::launcher {

using base::Bytes;
using base::ByteSpan;
using base::UniqueFd;
using rendezvous::FromRank;
using rendezvous::MsgType;
using rendezvous::Purpose;
using rendezvous::ServerHandshake;
using namespace std::chrono_literals;

namespace {

constexpr auto kHandshakeTime = 5s;
constexpr std::size_t kMaxStrangers = 64;

bool is_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

// Hello and proof, of fixed sizes, then frames.
class RankGate::Connection {
 public:
  Connection(std::uint32_t id, UniqueFd socket, const rendezvous::Secret& secret)
      : id_(id), socket_(std::move(socket)), handshake_([secret](Purpose purpose) {
          return purpose == Purpose::kRank ? std::optional(secret) : std::nullopt;
        }) {}

  bool is_stranger() const { return !stream_; }
  bool is_over() const { return over_; }
  bool ended_by_rank() const { return over_ && stream_ && !closing_; }

  void watch(Poller& poller, bool may_read, const Forward& forward) {
    if (!stream_) {
      poller.wake_at(deadline_);
      if (base::Clock::now() >= deadline_) over_ = true;
      if (!over_) poller.watch(socket_.get(), POLLIN, [this](short) { shake_hands(); });
      return;
    }
    short events = static_cast<short>((may_read && !closing_ ? POLLIN : 0) |
                                      (stream_->queued() > 0 ? POLLOUT : 0));
    poller.watch(stream_->in_fd(), events,
                 [this, &forward](short revents) { move_frames(revents, forward); });
  }

  void deliver(MsgType type, ByteSpan body) {
    if (!stream_ || over_) return;
    if (type == MsgType::kInvalid) {
      closing_ = true;
    } else {
      stream_->send({type, Bytes(body.begin(), body.end())});
    }
    flush();
  }

  std::uint32_t id() const { return id_; }

 private:
  void shake_hands() {
    std::size_t need = proving_ ? rendezvous::kProofSize : rendezvous::kHelloSize;
    std::size_t had = received_.size();
    received_.resize(need);
    ssize_t got = ::recv(socket_.get(), received_.data() + had, need - had, MSG_DONTWAIT);
    received_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) over_ = true;
    if (over_ || received_.size() < need) return;
    if (proving_) {
      over_ = !handshake_.on_proof(received_);
      if (!over_) stream_.emplace(std::move(socket_));
    } else {
      auto reply = handshake_.on_hello(received_);
      over_ = !reply || ::send(socket_.get(), reply->data(), reply->size(),
                               MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(reply->size());
      proving_ = true;
    }
    received_.clear();
  }

  void move_frames(short revents, const Forward& forward) {
    if ((revents & POLLOUT) != 0) flush();
    if ((revents & (POLLIN | POLLHUP | POLLERR)) == 0 || over_) return;
    over_ = !stream_->on_readable();
    for (;;) {
      auto frame = stream_->next();
      over_ |= !frame;
      if (!frame || !*frame) break;
      forward({id_, (*frame)->type, std::move((*frame)->body)});
    }
  }

  void flush() {
    if (!stream_->on_writable() || (closing_ && stream_->queued() == 0)) over_ = true;
  }

  std::uint32_t id_;
  UniqueFd socket_;  // until the handshake is done
  ServerHandshake handshake_;
  Bytes received_;
  bool proving_ = false;
  base::Clock::time_point deadline_ = base::Clock::now() + kHandshakeTime;
  std::optional<rendezvous::FrameStream> stream_;
  bool closing_ = false;  // after what is queued
  bool over_ = false;
};

base::Result<std::unique_ptr<RankGate>> RankGate::open(const rendezvous::Secret& rank_secret,
                                                       Forward forward) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto name = "@hv-" + rendezvous::Secret::random().hex().substr(0, 24);
  auto address = rendezvous::to_unix_address(name);
  if (!address) return base::fail(address.error());
  if (!listener || ::bind(listener.get(), address->get(), address->length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    return base::fail(base::system_error("cannot open the socket for the ranks", errno));
  }
  return std::unique_ptr<RankGate>(
      new RankGate(std::move(listener), std::move(name), rank_secret, std::move(forward)));
}

RankGate::RankGate(UniqueFd listener, std::string name, const rendezvous::Secret& rank_secret,
                   Forward forward)
    : listener_(std::move(listener)),
      name_(std::move(name)),
      rank_secret_(rank_secret),
      forward_(std::move(forward)) {}

RankGate::~RankGate() = default;

void RankGate::watch(Poller& poller, bool may_read) {
  for (const auto& connection : connections_) {
    if (connection->ended_by_rank()) forward_({connection->id(), MsgType::kInvalid, {}});
  }
  std::erase_if(connections_, [](const auto& connection) { return connection->is_over(); });
  auto strangers = std::ranges::count_if(connections_, [](auto& c) { return c->is_stranger(); });
  if (static_cast<std::size_t>(strangers) < kMaxStrangers) {
    poller.watch(listener_.get(), POLLIN, [this](short) { accept_all(); });
  }
  for (auto& connection : connections_) connection->watch(poller, may_read, forward_);
}

void RankGate::deliver(const rendezvous::ToRank& message) {
  for (auto& connection : connections_) {
    if (message.connection == 0 || message.connection == connection->id()) {
      connection->deliver(message.type, message.body);
    }
  }
}

void RankGate::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (!is_same_user(socket.get())) continue;
    connections_.push_back(
        std::make_unique<Connection>(++last_id_, std::move(socket), rank_secret_));
  }
}

}  // namespace hv::launcher
