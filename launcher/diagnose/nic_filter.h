// --nic: which interfaces of each host may be used. Pure.
//
//   eth0          the interface of this name, or where there is none, those whose names begin so
//   =eth0         this name only
//   10.9.0.0/24   interfaces with an address in this network; 10.9.0.3: with this address
//   a,b           any of these
//   ^docker,veth  all but these
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

// An address as bytes: 4 or 16 of them.
struct NetAddress {
  std::array<std::uint8_t, 16> bytes{};
  std::size_t size = 0;
  bool operator==(const NetAddress&) const = default;
};
std::optional<NetAddress> parse_address(std::string_view text);  // a scope ("%eth0") is ignored
bool same_network(const NetAddress& a, const NetAddress& b, int prefix);

bool is_link_local(std::string_view address);
bool is_ipv6(std::string_view address);

struct NicFilter {
  struct Item {
    std::string name;                   // empty: a network
    bool exact = false;                 // "=name"
    std::optional<NetAddress> network;  // with
    int prefix = 0;
  };
  std::string text;  // as typed, for messages
  bool exclude = false;
  std::vector<Item> items;  // none: every interface may be used

  bool empty() const { return items.empty(); }
};
// kUsage for an empty item, a network that is none, or '^' before only some of the items.
base::Result<NicFilter> parse_nic_filter(std::string_view text);

// For each of a host's interfaces: may it be used?
std::vector<bool> select(const NicFilter& filter,
                         const std::vector<rendezvous::Interface>& interfaces);

// Why the filter leaves a host without an interface, with what the host has; empty: it does not.
std::string why_none(const NicFilter& filter, const std::vector<rendezvous::Interface>& interfaces);

}  // namespace hv::launcher::diagnose
