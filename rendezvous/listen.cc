#include "rendezvous/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/endpoint.h"

namespace hv::rendezvous {

namespace {

using base::Code;
using base::Result;
using base::UniqueFd;

Result<UniqueFd> listen_at(const Endpoint& at, bool both_versions = false) {
  auto address = to_socket_address(at);
  if (!address) return base::fail(address.error());
  UniqueFd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return base::fail(base::system_error(to_string(at), errno));
  int on = 1, v6_only = both_versions ? 0 : 1;
  // Connections of an earlier job that linger do not keep its port from us; a listener does.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->storage.ss_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  if (::bind(fd.get(), address->get(), address->length) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return base::fail(base::system_error(to_string(at), errno));
  }
  return fd;
}

bool is_port_taken(const base::Error& error) {
  return error.sys == EADDRINUSE || error.sys == EACCES;
}

// One IP version missing is fine; a port that is taken is not.
Result<std::vector<UniqueFd>> listen_on_loopback(std::uint16_t port) {
  std::vector<UniqueFd> sockets;
  auto v4 = listen_at({"127.0.0.1", port});
  if (!v4 && is_port_taken(v4.error())) return base::fail(v4.error());
  if (v4) sockets.push_back(std::move(*v4));
  auto v6 = listen_at({"::1", v4 ? local_endpoint(sockets[0].get()).port : port});
  if (!v6 && !v4) return base::fail(v6.error());
  if (v6) sockets.push_back(std::move(*v6));
  return sockets;
}

Result<std::vector<UniqueFd>> listen_on(const ListenOptions& options, std::uint16_t port) {
  if (options.bind_address.empty() && options.loopback_only) return listen_on_loopback(port);
  Result<UniqueFd> one = options.bind_address.empty() ? listen_at({"::", port}, true)
                                                      : listen_at({options.bind_address, port});
  if (!one && options.bind_address.empty() && !is_port_taken(one.error())) {
    one = listen_at({"0.0.0.0", port});
  }
  if (!one) return base::fail(one.error());
  std::vector<UniqueFd> sockets;
  sockets.push_back(std::move(*one));
  return sockets;
}

Listening with_endpoints(const ListenOptions& options, std::vector<UniqueFd> sockets) {
  Listening listening{std::move(sockets), {}};
  Endpoint first = local_endpoint(listening.sockets[0].get());
  if (!options.bind_address.empty() || options.loopback_only) {
    for (const auto& socket : listening.sockets) {
      listening.endpoints.push_back(local_endpoint(socket.get()));
    }
    return listening;
  }
  for (auto& address : usable_addresses(list_interfaces())) {
    bool reachable = first.address == "::" || address.find(':') == std::string::npos;
    if (reachable) listening.endpoints.push_back({std::move(address), first.port});
  }
  if (listening.endpoints.empty()) listening.endpoints.push_back({"127.0.0.1", first.port});
  return listening;
}

}  // namespace

Result<Listening> open_listening(const ListenOptions& options) {
  std::uint16_t high = std::max(options.port_low, options.port_high);
  base::Error last;
  for (std::uint32_t port = options.port_low; port <= high; ++port) {
    auto sockets = listen_on(options, static_cast<std::uint16_t>(port));
    if (sockets) return with_endpoints(options, std::move(*sockets));
    last = sockets.error();
    if (!is_port_taken(last)) break;
  }
  std::string range = std::to_string(options.port_low) + "-" + std::to_string(high);
  if (options.port_low != 0 && is_port_taken(last)) {
    return base::fail(
        {Code::kUsage,
         "no free port in " + range + " (" + last.text + "); free one or give another range",
         {},
         last.sys});
  }
  return base::fail(
      {Code::kUsage, "cannot listen for the job's processes at " + last.text, {}, last.sys});
}

}  // namespace hv::rendezvous
