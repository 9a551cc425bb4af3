// Numeric addresses as text and as the kernel takes them. No name service.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "10.0.0.3:4000", "[fe80::1%eth0]:4000".
base::Result<Endpoint> parse_endpoint(std::string_view text);
std::string to_string(const Endpoint& endpoint);

base::Result<SocketAddress> to_socket_address(const Endpoint& endpoint);
// An IPv4 address inside IPv6 comes out as IPv4.
Endpoint from_socket_address(const SocketAddress& address);
Endpoint local_endpoint(int fd);
Endpoint remote_endpoint(int fd);

// No delay for small frames; a peer whose host is silent is noticed after 5 s of idleness.
void set_tcp_options(int fd);

// An abstract Unix address; `name` with or without its leading '@'.
base::Result<SocketAddress> to_unix_address(std::string_view name);

// Every address of every network interface of this machine.
std::vector<Interface> list_interfaces();

// Addresses that other hosts may use, best first: interfaces that are up, bridges and containers'
// interfaces last, link-local ones only if there is nothing else. Never loopback.
std::vector<std::string> usable_addresses(const std::vector<Interface>& interfaces);

}  // namespace hv::rendezvous
