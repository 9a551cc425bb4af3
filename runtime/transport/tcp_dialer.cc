#include "runtime/transport/tcp_dialer.h"

#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/endpoint.h"

namespace hv::runtime {
namespace {

using base::UniqueFd;
using std::chrono::milliseconds;

constexpr milliseconds kTick{200};
constexpr milliseconds kNextAddress{1000};   // silence before the next address is tried too
constexpr milliseconds kGiveUp{15000};       // without success for so long: unreachable
constexpr milliseconds kVisitorTime{10000};  // for a visitor's handshake
constexpr std::size_t kMaxVisitors = 1024;

void arm(int timer, milliseconds interval) {
  const auto ns = std::chrono::nanoseconds(interval).count();
  const timespec time{ns / 1000000000, ns % 1000000000};
  const itimerspec spec{time, time};
  ::timerfd_settime(timer, 0, &spec, nullptr);
}

void add_to_epoll(int epoll, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

std::uint64_t plan_hash(const std::vector<rendezvous::PeerInfo>& peers) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xff) * 0x100000001b3u;
  };
  for (const auto& peer : peers) {
    add(std::to_string(peer.rank));
    add(std::to_string(peer.pid));
    add(peer.identity);
    add(peer.segment_socket);
    for (const auto& endpoint : peer.endpoints) add(rendezvous::to_string(endpoint));
  }
  return hash;
}

TcpDialer::TcpDialer(int epoll, UniqueFd listener, const std::vector<rendezvous::PeerInfo>& peers,
                     int rank, const rendezvous::Secret& secret, Events events)
    : epoll_(epoll),
      listener_(std::move(listener)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      peers_(peers),
      rank_(rank),
      secret_(secret),
      plan_(plan_hash(peers)),
      events_(std::move(events)) {
  if (listener_) add_to_epoll(epoll_, listener_.get(), EPOLLIN, kListener);
  add_to_epoll(epoll_, timer_.get(), EPOLLIN, kTimer);
}

void TcpDialer::connect(int rank) {
  if (dialing_.contains(rank)) return;
  const auto now = base::Clock::now();
  auto& dialing = dialing_[rank];
  dialing.begun = dialing.next_try = now;
  try_next(rank, dialing);
  set_timer();
}

void TcpDialer::close() {
  guests_.clear();
  dialing_.clear();
  listener_.reset();
  timer_.reset();
}

void TcpDialer::set_timer() {
  if (timer_) arm(timer_.get(), dialing_.empty() && guests_.empty() ? milliseconds(0) : kTick);
}

void TcpDialer::on_event(std::uint64_t id) {
  if (id == kListener) return accept_all();
  if (id == kTimer) return on_timer();
  if (auto it = guests_.find(id); it != guests_.end()) step(it);
}

void TcpDialer::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    if (guests_.size() >= kMaxVisitors) continue;
    rendezvous::set_tcp_options(socket.get());
    add_guest({std::move(socket), DataHandshake::server(secret_, plan_), {}, -1, 0, 0, true, {}},
              EPOLLIN);
  }
}

void TcpDialer::add_guest(Guest guest, std::uint32_t events) {
  guest.since = base::Clock::now();
  const std::uint64_t id = next_id_++;
  add_to_epoll(epoll_, guest.socket.get(), events, id);
  guests_.emplace(id, std::move(guest));
  set_timer();
}

void TcpDialer::on_timer() {
  std::uint64_t ticks = 0;
  [[maybe_unused]] auto n = ::read(timer_.get(), &ticks, sizeof ticks);
  const auto now = base::Clock::now();
  for (auto it = guests_.begin(); it != guests_.end();) {
    const bool expired = it->second.rank < 0 && now - it->second.since > kVisitorTime;
    it = expired ? guests_.erase(it) : std::next(it);
  }
  std::vector<int> due;
  for (const auto& [rank, dialing] : dialing_) {
    if (now >= dialing.next_try) due.push_back(rank);
  }
  for (int rank : due) {
    if (auto it = dialing_.find(rank); it != dialing_.end()) try_next(rank, it->second);
  }
  set_timer();
}

// One more address; after the last one, from the beginning, unless none has let us in for long.
void TcpDialer::try_next(int rank, Dialing& dialing) {
  const auto now = base::Clock::now();
  const auto& peer = peers_[static_cast<std::size_t>(rank)];
  if (now - dialing.begun > kGiveUp || peer.endpoints.empty()) {
    for (const auto& [id, guest] : guests_) {
      if (guest.rank == rank) dialing.reasons[guest.endpoint] = "does not answer";
    }
    std::erase_if(guests_, [&](const auto& g) { return g.second.rank == rank; });
    std::string reasons;
    for (const auto& [endpoint, reason] : dialing.reasons) {
      if (!reasons.empty()) reasons += "; ";
      reasons += rendezvous::to_string(peer.endpoints[endpoint]) + " " + reason;
    }
    if (reasons.empty()) reasons = "it has given no address";
    dialing_.erase(rank);
    return events_.on_unreachable(rank, reasons);
  }
  dialing.next_try = now + kNextAddress;
  const std::size_t endpoint = dialing.next_endpoint++ % peer.endpoints.size();
  const bool already = std::any_of(guests_.begin(), guests_.end(), [&](const auto& g) {
    return g.second.rank == rank && g.second.endpoint == endpoint;
  });
  if (!already) dial(rank, 0, endpoint);
}

void TcpDialer::dial(int rank, int channel, std::size_t endpoint) {
  auto refuse = [&](const std::string& reason) {
    if (auto it = dialing_.find(rank); it != dialing_.end()) it->second.reasons[endpoint] = reason;
  };
  auto address =
      rendezvous::to_socket_address(peers_[static_cast<std::size_t>(rank)].endpoints[endpoint]);
  if (!address) return refuse(address.error().text);
  UniqueFd socket(
      ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return refuse(std::strerror(errno));
  rendezvous::set_tcp_options(socket.get());
  if (::connect(socket.get(), address->get(), address->length) != 0 && errno != EINPROGRESS) {
    return refuse(std::strerror(errno));
  }
  const DataHello self{plan_, static_cast<std::uint32_t>(rank_),
                       static_cast<std::uint32_t>(channel)};
  add_guest({std::move(socket),
             DataHandshake::client(secret_, self),
             {},
             rank,
             channel,
             endpoint,
             false,
             {}},
            EPOLLOUT);
}

void TcpDialer::step(Guests::iterator it) {
  Guest& guest = it->second;
  if (!guest.connected) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(guest.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return drop(it, std::strerror(error));
    const auto hello = guest.handshake.begin();
    if (::send(guest.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(hello.size())) {
      return drop(it, std::strerror(errno));
    }
    guest.connected = true;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = it->first;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, guest.socket.get(), &event);
    return;
  }
  if (std::string reason = read_and_answer(guest); !reason.empty()) return drop(it, reason);
  if (guest.handshake.done()) settle(it);
}

// Never reads further than the handshake. Empty: fine so far.
std::string TcpDialer::read_and_answer(Guest& guest) {
  while (!guest.handshake.done()) {
    const std::size_t have = guest.input.size(), want = guest.handshake.expects();
    guest.input.resize(want);
    const ssize_t n = ::recv(guest.socket.get(), guest.input.data() + have, want - have, 0);
    guest.input.resize(have + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return "closed the connection";
    if (n < 0) return errno == EAGAIN || errno == EINTR ? "" : std::strerror(errno);
    if (guest.input.size() < want) continue;
    auto answer = guest.handshake.on_bytes(guest.input);
    if (!answer) return answer.error().text;
    guest.input.clear();
    if (!answer->empty() && ::send(guest.socket.get(), answer->data(), answer->size(),
                                   MSG_NOSIGNAL) != static_cast<ssize_t>(answer->size())) {
      return std::strerror(errno);
    }
  }
  return {};
}

void TcpDialer::settle(Guests::iterator it) {
  Guest guest = std::move(it->second);
  guests_.erase(it);
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, guest.socket.get(), nullptr);
  if (guest.rank < 0) {
    const auto& hello = guest.handshake.peer();
    if (hello.rank > static_cast<std::uint32_t>(rank_) && hello.rank < peers_.size() &&
        hello.channel < static_cast<std::uint32_t>(kChannels)) {
      events_.on_open(static_cast<int>(hello.rank), static_cast<int>(hello.channel),
                      std::move(guest.socket));
    }
    return set_timer();
  }
  if (guest.channel == 0) {
    if (!dialing_.contains(guest.rank)) return;  // another address was faster
    dialing_.erase(guest.rank);
    std::erase_if(guests_, [&](const auto& g) { return g.second.rank == guest.rank; });
    for (int c = 1; c < kChannels; ++c) dial(guest.rank, c, guest.endpoint);
  }
  events_.on_open(guest.rank, guest.channel, std::move(guest.socket));
  set_timer();
}

void TcpDialer::drop(Guests::iterator it, std::string reason) {
  const Guest guest = std::move(it->second);
  guests_.erase(it);
  // A further channel that fails is no fault: the others carry everything.
  if (guest.rank < 0 || guest.channel != 0) return;
  auto dialing = dialing_.find(guest.rank);
  if (dialing == dialing_.end()) return;
  dialing->second.reasons[guest.endpoint] = std::move(reason);
}

}  // namespace hv::runtime
