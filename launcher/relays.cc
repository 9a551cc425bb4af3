#include "launcher/relays.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hv::launcher {

std::vector<std::optional<std::uint32_t>> make_relay_tree(std::size_t hosts, std::uint32_t fanout) {
  std::vector<std::optional<std::uint32_t>> relays(hosts);
  if (fanout == 0) return relays;
  std::size_t above = 0;  // where the level above begins
  std::size_t begin = fanout;
  for (std::size_t width = fanout; begin < hosts; width *= fanout) {
    const std::size_t end = begin + width * fanout;
    for (std::size_t host = begin; host < std::min(end, hosts); ++host) {
      relays[host] = static_cast<std::uint32_t>(above + (host - begin) % width);
    }
    above = std::exchange(begin, end);
  }
  return relays;
}

Relays::Relays(std::size_t hosts, std::uint32_t fanout) : hosts_(hosts) {
  const auto tree = make_relay_tree(hosts, fanout);
  for (std::uint32_t host = 0; host < hosts; ++host) {
    hosts_[host].relay = tree[host];
    if (tree[host]) hosts_[*tree[host]].children.push_back(host);
  }
}

Relays::Steps Relays::on_hello(std::uint32_t host, bool may_move) {
  hosts_[host].state = State::kWaiting;
  return may_move && hosts_[host].relay ? send_on(host) : settle(host);
}

Relays::Steps Relays::on_moved(std::uint32_t host) {
  hosts_[host].relayed = true;
  return settle(host);
}

Relays::Steps Relays::on_stays(std::uint32_t host) {
  return is_moving(host) ? settle(host) : Steps();
}

Relays::Steps Relays::on_opened(std::uint32_t host, std::vector<rendezvous::Endpoint> endpoints) {
  Steps steps;
  hosts_[host].endpoints = std::move(endpoints);
  for (auto child : hosts_[host].children) {
    if (hosts_[child].state != State::kWaiting) continue;
    std::ranges::move(send_on(child), std::back_inserter(steps));
  }
  return steps;
}

Relays::Steps Relays::on_gone(std::uint32_t host) {
  hosts_[host].state = State::kAway;
  return on_opened(host, {});
}

std::optional<std::uint32_t> Relays::relay_of(std::uint32_t host) const {
  return hosts_[host].relayed ? hosts_[host].relay : std::nullopt;
}

Relays::Steps Relays::settle(std::uint32_t host) {
  hosts_[host].state = State::kSettled;
  Steps steps{{Step::Kind::kSettle, host}};
  if (!hosts_[host].children.empty()) steps.push_back({Step::Kind::kOpen, host});
  return steps;
}

// To its relay, as soon as that is known.
Relays::Steps Relays::send_on(std::uint32_t host) {
  const auto relay = *hosts_[host].relay;
  const auto& endpoints = hosts_[relay].endpoints;
  if (!endpoints) return {};
  if (endpoints->empty()) return settle(host);
  hosts_[host].state = State::kMoving;
  return {{Step::Kind::kMove, host, relay, *endpoints}};
}

}  // namespace hv::launcher
