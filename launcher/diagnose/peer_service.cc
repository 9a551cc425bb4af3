#include "launcher/diagnose/peer_service.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

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
constexpr std::size_t kMaxGuests = 512;
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

void serve(int fd, const rendezvous::Secret& secret, std::uint32_t host) {
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

}  // namespace

base::Result<std::unique_ptr<PeerService>> PeerService::open(
    const rendezvous::Secret& secret, std::uint32_t host, const rendezvous::ListenOptions& listen) {
  auto listening = rendezvous::open_listening(listen);
  if (!listening) return base::fail(listening.error());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return base::fail(base::system_error("eventfd", errno));
  std::uint16_t port = listening->endpoints.front().port;
  return std::unique_ptr<PeerService>(
      new PeerService(std::move(listening->sockets), port, std::move(stop), secret, host));
}

PeerService::PeerService(std::vector<UniqueFd> listening, std::uint16_t port, UniqueFd stop,
                         const rendezvous::Secret& secret, std::uint32_t host)
    : listening_(std::move(listening)),
      port_(port),
      stop_(std::move(stop)),
      secret_(secret),
      host_(host),
      thread_([this] { run(); }) {}

PeerService::~PeerService() {
  const std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
  for (auto& guest : guests_) ::shutdown(guest.socket.get(), SHUT_RDWR);
  for (auto& guest : guests_) guest.thread.join();
}

void PeerService::run() {
  for (;;) {
    std::vector<pollfd> polled{{stop_.get(), POLLIN, 0}};
    for (const auto& fd : listening_) polled.push_back({fd.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), -1);
    if (polled.front().revents != 0) return;
    guests_.remove_if([](Guest& guest) {
      if (!guest.ended) return false;
      guest.thread.join();
      return true;
    });
    for (const auto& one : polled) {
      if (one.revents != 0) accept_one(one.fd);
    }
  }
}

void PeerService::accept_one(int listening) {
  UniqueFd socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket || guests_.size() >= kMaxGuests) return;
  Guest& guest = guests_.emplace_back();
  guest.socket = std::move(socket);
  guest.thread = std::thread([this, &guest] {
    serve(guest.socket.get(), secret_, host_);
    ::shutdown(guest.socket.get(), SHUT_RDWR);  // closed when the next one comes
    guest.ended = true;
  });
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
