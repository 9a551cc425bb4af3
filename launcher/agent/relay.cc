#include "launcher/agent/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "rendezvous/codec.h"
#include "rendezvous/endpoint.h"

namespace hv::launcher {

using base::UniqueFd;
using rendezvous::Frame;
using rendezvous::FromAgent;
using rendezvous::MsgType;

namespace {

constexpr std::size_t kMaxStrangers = 64;

}  // namespace

rendezvous::Secret relay_secret(const rendezvous::Secret& job, std::uint32_t host) {
  return job.derive("relay " + std::to_string(host));
}

base::Result<std::unique_ptr<Relay>> Relay::open(const rendezvous::ListenOptions& options,
                                                 const rendezvous::Secret& secret,
                                                 Forward forward) {
  auto listening = rendezvous::open_listening(options);
  if (!listening) return base::fail(listening.error());
  return std::unique_ptr<Relay>(new Relay(std::move(*listening), secret, std::move(forward)));
}

Relay::Relay(rendezvous::Listening listening, const rendezvous::Secret& secret, Forward forward)
    : listening_(std::move(listening)), secret_(secret), forward_(std::move(forward)) {}

void Relay::watch(Poller& poller, bool may_read) {
  for (const auto& child : children_) {
    if (child->guest->is_over() && child->host) report_closed(*child);
  }
  std::erase_if(children_, [](const auto& child) { return child->guest->is_over(); });
  auto strangers =
      std::ranges::count_if(children_, [](auto& child) { return child->guest->is_stranger(); });
  if (static_cast<std::size_t>(strangers) < kMaxStrangers) {
    for (const auto& listener : listening_.sockets) {
      poller.watch(listener.get(), POLLIN, [this, fd = listener.get()](short) { accept_all(fd); });
    }
  }
  for (auto& child : children_) child->guest->watch(poller, may_read);
}

void Relay::accept_all(int listener) {
  for (;;) {
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    rendezvous::set_tcp_options(socket.get());
    auto child = std::make_unique<Child>();
    child->guest = std::make_unique<Guest>(
        std::move(socket), Guest::Terms{rendezvous::Purpose::kAgent, secret_, true},
        [this, child = child.get()](Frame frame) { on_frame(*child, std::move(frame)); });
    children_.push_back(std::move(child));
  }
}

void Relay::on_frame(Child& child, Frame frame) {
  if (!child.host) {
    auto hello = rendezvous::decode<rendezvous::AgentHello>(frame.body);
    if (frame.type != MsgType::kAgentHello || !hello) return child.guest->drop();
    child.host = hello->host_index;
    ways_[*child.host] = &child;
  }
  if (frame.type != MsgType::kFromAgent) {
    return forward_(rendezvous::encode(FromAgent{*child.host, frame.type, std::move(frame.body)}));
  }
  auto from = rendezvous::decode<FromAgent>(frame.body);
  if (!from) return child.guest->drop();
  ways_[from->host] = &child;
  forward_(frame);
}

// Its own end first: it is the cause of the others'.
void Relay::report_closed(const Child& child) {
  forward_(rendezvous::encode(FromAgent{*child.host, MsgType::kInvalid, {}}));
  std::erase_if(ways_, [&](const auto& way) {
    if (way.second != &child) return false;
    if (way.first != *child.host) {
      forward_(rendezvous::encode(FromAgent{way.first, MsgType::kInvalid, {}}));
    }
    return true;
  });
}

void Relay::deliver(const rendezvous::ToAgent& message) {
  if (message.host == rendezvous::kEveryAgent) {
    const Frame frame = rendezvous::encode(message);
    for (auto& child : children_) {
      if (child->host) child->guest->send(frame);
    }
    return;
  }
  auto way = ways_.find(message.host);
  if (way == ways_.end()) return;
  Child& child = *way->second;
  if (child.host != message.host) {
    child.guest->send(rendezvous::encode(message));
  } else if (message.type == MsgType::kInvalid) {
    child.guest->close_when_written();
  } else {
    child.guest->send({message.type, message.body});
  }
}

bool Relay::is_written() const {
  return std::ranges::all_of(children_, [](auto& child) { return child->guest->is_written(); });
}

}  // namespace hv::launcher
