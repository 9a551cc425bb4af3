#include "launcher/agent/rank_gate.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "rendezvous/endpoint.h"

namespace hv::launcher {

using base::UniqueFd;
using rendezvous::MsgType;

namespace {

constexpr std::size_t kMaxStrangers = 64;

bool is_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

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

void RankGate::watch(Poller& poller, bool may_read) {
  for (const auto& [id, guest] : connections_) {
    if (guest->closed_by_peer()) forward_({id, MsgType::kInvalid, {}});
  }
  std::erase_if(connections_, [](const auto& one) { return one.second->is_over(); });
  auto strangers =
      std::ranges::count_if(connections_, [](auto& one) { return one.second->is_stranger(); });
  if (static_cast<std::size_t>(strangers) < kMaxStrangers) {
    poller.watch(listener_.get(), POLLIN, [this](short) { accept_all(); });
  }
  for (auto& [id, guest] : connections_) guest->watch(poller, may_read);
}

void RankGate::deliver(const rendezvous::ToRank& message) {
  for (auto& [id, guest] : connections_) {
    if (message.connection != 0 && message.connection != id) continue;
    if (message.type == MsgType::kInvalid) {
      guest->close_when_written();
    } else {
      guest->send({message.type, message.body});
    }
  }
}

void RankGate::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (!is_same_user(socket.get())) continue;
    const auto id = ++last_id_;
    connections_.emplace(
        id, std::make_unique<Guest>(std::move(socket),
                                    Guest::Terms{rendezvous::Purpose::kRank, rank_secret_, false},
                                    [this, id](rendezvous::Frame frame) {
                                      forward_({id, frame.type, std::move(frame.body)});
                                    }));
  }
}

}  // namespace hv::launcher
