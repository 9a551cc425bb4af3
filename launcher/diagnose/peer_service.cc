#include "launcher/diagnose/peer_service.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "rendezvous/endpoint.h"

namespace hv::launcher::diagnose {

using base::Clock;
using base::Millis;
using base::UniqueFd;
using rendezvous::Purpose;
using namespace std::chrono_literals;

namespace {

constexpr auto kHandshakeTime = 5s;
constexpr auto kWorkTime = 30s;  // longer than any order takes
constexpr int kMaxConnections = 512;
constexpr std::size_t kChunk = 256 * 1024;
// What waits unsent in our own kernel: little, so that a flow ends when it should.
constexpr int kUnsent = 256 * 1024;

bool let_in(int fd, const rendezvous::Secret& secret) {
  rendezvous::ServerHandshake handshake([&](Purpose purpose) {
    return purpose == Purpose::kData ? std::optional(secret) : std::nullopt;
  });
  std::array<std::byte, rendezvous::kHelloSize> hello;
  std::array<std::byte, rendezvous::kProofSize> proof;
  if (!read_whole(fd, hello.data(), hello.size())) return false;
  auto reply = handshake.on_hello(hello);
  if (!reply || !write_whole(fd, reply->data(), reply->size())) return false;
  return read_whole(fd, proof.data(), proof.size()) && handshake.on_proof(proof);
}

void echo(int fd) {
  Ping ping;
  while (read_whole(fd, &ping, sizeof ping) && write_whole(fd, &ping, sizeof ping)) {
  }
}

void serve(const UniqueFd& socket, const rendezvous::Secret& secret, std::uint32_t host) {
  int fd = socket.get();
  rendezvous::set_tcp_options(fd);
  if (!set_blocking(fd, kHandshakeTime) || !let_in(fd, secret) || !set_blocking(fd, kWorkTime)) {
    return;
  }
  PeerGreeting greeting;
  greeting.host = host;
  rendezvous::remote_endpoint(fd).address.copy(greeting.seen_as, sizeof greeting.seen_as - 1);
  PeerOrder order;
  if (!write_whole(fd, &greeting, sizeof greeting)) return;
  if (!read_whole(fd, &order, sizeof order)) return;
  switch (order.work) {
    case PeerWork::kEcho:
      return echo(fd);
    case PeerWork::kSink: {
      auto flow = receive_flow(fd, Millis(order.ms));
      write_whole(fd, &flow, sizeof flow);
      return;
    }
    case PeerWork::kSource:
      return send_flow(fd, Millis(order.ms));
  }
}

class Service {
 public:
  Service(std::vector<UniqueFd> listening, const rendezvous::Secret& secret, std::uint32_t host)
      : listening_(std::move(listening)), secret_(secret), host_(host) {}

  void run() {
    for (;;) {
      std::vector<pollfd> polled;
      for (const auto& fd : listening_) polled.push_back({fd.get(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), -1);
      for (const auto& one : polled) {
        if (one.revents != 0) accept_one(one.fd);
      }
    }
  }

 private:
  void accept_one(int listening) {
    UniqueFd socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket || connections_ >= kMaxConnections) return;
    ++connections_;
    std::thread([this, fd = socket.release()] {
      serve(UniqueFd(fd), secret_, host_);
      --connections_;
    }).detach();
  }

  std::vector<UniqueFd> listening_;
  rendezvous::Secret secret_;
  std::uint32_t host_;
  std::atomic<int> connections_{0};
};

}  // namespace

base::Result<std::uint16_t> serve_peers(const rendezvous::Secret& secret, std::uint32_t host,
                                        const rendezvous::ListenOptions& listen) {
  auto listening = rendezvous::open_listening(listen);
  if (!listening) return base::fail(listening.error());
  std::uint16_t port = listening->endpoints.front().port;
  // For as long as the process lives, so that no thread can outlive what it uses.
  auto* service = new Service(std::move(listening->sockets), secret, host);
  std::thread([service] { service->run(); }).detach();
  return port;
}

bool set_blocking(int fd, Millis limit) {
  timeval time{limit.count() / 1000, (limit.count() % 1000) * 1000};
  int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 &&
         ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
         ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
}

bool read_whole(int fd, void* into, std::size_t size) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    ssize_t n = ::recv(fd, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_whole(int fd, const void* from, std::size_t size) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

void send_flow(int fd, Millis time) {
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
  std::vector<char> chunk(kChunk, 'x');
  auto until = Clock::now() + time;
  while (Clock::now() < until && write_whole(fd, chunk.data(), chunk.size())) {
  }
  ::shutdown(fd, SHUT_WR);
}

Flow receive_flow(int fd, Millis time) {
  std::vector<char> chunk(kChunk);
  Flow flow;
  Clock::time_point begin, now;  // begin: once the first bytes have come
  for (;;) {
    ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
    now = Clock::now();
    if (begin == Clock::time_point()) begin = now;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    auto since = now - begin;
    if (since > time / 4 && since <= time) flow.bits += static_cast<double>(n) * 8;
  }
  auto us = [](Clock::time_point at) {
    return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
  };
  flow.from_us = us(begin + time / 4);
  flow.to_us = us(std::min(now, begin + time));
  return flow;
}

}  // namespace hv::launcher::diagnose
