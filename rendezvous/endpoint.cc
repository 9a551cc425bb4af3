#include "rendezvous/endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "rendezvous/base/text.h"

namespace hv::rendezvous {

namespace {

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return text.data();
  }
  auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    ::inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text.data(), text.size());
    return text.data();
  }
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  std::string result = text.data();
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && v6->sin6_scope_id != 0) {
    std::array<char, IF_NAMESIZE> name{};
    bool named = ::if_indextoname(v6->sin6_scope_id, name.data()) != nullptr;
    result += '%';
    result += named ? std::string(name.data()) : std::to_string(v6->sin6_scope_id);
  }
  return result;
}

base::Result<unsigned> scope_of(std::string_view name, const std::string& address) {
  if (auto number = base::parse_int(name)) return static_cast<unsigned>(*number);
  unsigned index = ::if_nametoindex(std::string(name).c_str());
  if (index == 0) {
    return base::fail(base::Code::kNotFound,
                      address + ": no network interface " + std::string(name) + " here");
  }
  return index;
}

Endpoint name_of(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (get(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return {};
  return from_socket_address(address);
}

// Bits that are set in a network mask.
std::uint8_t prefix_length(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  bool v4 = mask->sa_family == AF_INET;
  const void* bytes =
      v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
         : &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  int bits = 0;
  for (std::size_t i = 0; i < (v4 ? sizeof(in_addr) : sizeof(in6_addr)); ++i) {
    bits += std::popcount(static_cast<const std::uint8_t*>(bytes)[i]);
  }
  return static_cast<std::uint8_t>(bits);
}

// Interfaces that usually lead to containers and virtual machines of this host only.
bool leads_inside(std::string_view interface) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"docker", "br-",   "virbr",  "veth",
                                                         "cni",    "lxcbr", "podman", "flannel"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return interface.starts_with(prefix); });
}

bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

}  // namespace

base::Result<Endpoint> parse_endpoint(std::string_view text) {
  auto refuse = [&] {
    return base::fail(base::Code::kUsage, base::quoted(text) +
                                              " is no endpoint; expected ADDRESS:PORT or "
                                              "[IPV6]:PORT with a numeric address");
  };
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  auto port = base::parse_int(text.substr(colon + 1));
  auto address = text.substr(0, colon);
  if (!port || *port < 1 || *port > 65535) return refuse();
  bool bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (bracketed) address = address.substr(1, address.size() - 2);
  if (bracketed != (address.find(':') != std::string_view::npos)) return refuse();
  Endpoint endpoint{std::string(address), static_cast<std::uint16_t>(*port)};
  std::string bare = endpoint.address.substr(0, endpoint.address.find('%'));
  in6_addr any{};
  if (::inet_pton(bracketed ? AF_INET6 : AF_INET, bare.c_str(), &any) != 1) return refuse();
  return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
  std::string text = endpoint.address;
  if (text.find(':') != std::string::npos) text.insert(0, 1, '[').push_back(']');
  text += ':';
  text += std::to_string(endpoint.port);
  return text;
}

base::Result<SocketAddress> to_socket_address(const Endpoint& endpoint) {
  SocketAddress address;
  auto percent = endpoint.address.find('%');
  std::string bare = endpoint.address.substr(0, percent);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, endpoint.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    address.length = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET6, bare.c_str(), &v6->sin6_addr) != 1) {
    return base::fail(base::Code::kUsage,
                      base::quoted(endpoint.address) + " is no numeric address");
  }
  if (percent != std::string::npos) {
    auto scope = scope_of(std::string_view(endpoint.address).substr(percent + 1), endpoint.address);
    if (!scope) return base::fail(scope.error());
    v6->sin6_scope_id = *scope;
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(endpoint.port);
  address.length = sizeof *v6;
  return address;
}

Endpoint from_socket_address(const SocketAddress& address) {
  switch (address.storage.ss_family) {
    case AF_INET:
      return {address_text(address.get()),
              ntohs(reinterpret_cast<const sockaddr_in*>(address.get())->sin_port)};
    case AF_INET6:
      return {address_text(address.get()),
              ntohs(reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port)};
    default:
      return {};
  }
}

Endpoint local_endpoint(int fd) { return name_of(fd, ::getsockname); }
Endpoint remote_endpoint(int fd) { return name_of(fd, ::getpeername); }

void set_tcp_options(int fd) {
  auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

base::Result<SocketAddress> to_unix_address(std::string_view name) {
  if (name.starts_with('@')) name.remove_prefix(1);
  SocketAddress address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (name.empty() || name.size() + 1 > sizeof un->sun_path) {
    return base::fail(base::Code::kUsage,
                      base::quoted(name) + " is no name for an abstract Unix socket");
  }
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

std::vector<Interface> list_interfaces() {
  std::vector<Interface> interfaces;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return interfaces;
  for (auto* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    auto family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    interfaces.push_back({one->ifa_name, address_text(one->ifa_addr),
                          (one->ifa_flags & IFF_LOOPBACK) != 0,
                          (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0,
                          prefix_length(one->ifa_netmask)});
  }
  ::freeifaddrs(list);
  return interfaces;
}

std::vector<std::string> usable_addresses(const std::vector<Interface>& interfaces) {
  std::vector<const Interface*> usable;
  for (const auto& one : interfaces) {
    if (one.up && !one.loopback && !is_link_local(one.address)) usable.push_back(&one);
  }
  if (usable.empty()) {
    for (const auto& one : interfaces) {
      if (one.up && !one.loopback) usable.push_back(&one);
    }
  }
  auto is_v6 = [](const Interface* one) { return one->address.find(':') != std::string::npos; };
  std::stable_sort(usable.begin(), usable.end(), [&](const Interface* a, const Interface* b) {
    return std::pair(leads_inside(a->name), is_v6(a)) < std::pair(leads_inside(b->name), is_v6(b));
  });
  std::vector<std::string> addresses;
  for (const auto* one : usable) addresses.push_back(one->address);
  return addresses;
}

}  // namespace hv::rendezvous
