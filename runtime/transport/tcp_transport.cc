#include "runtime/transport/tcp_transport.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/endpoint.h"
#include "runtime/transport/tcp_channel.h"
#include "runtime/transport/tcp_dialer.h"
#include "runtime/transport/tcp_peer.h"

namespace hv::runtime {
namespace {

using base::Code;
using base::Error;
using base::Result;
using base::UniqueFd;

constexpr std::uint64_t kWakeId = 0;
std::uint64_t channel_id(int rank, int channel) {
  return 1 + static_cast<std::uint64_t>(rank) * kChannels + static_cast<std::uint64_t>(channel);
}

// Purpose: moves messages of all peers. Thread: the baton holder's; abort() from any, so one lock
// guards everything but the wait. Owner: sockets and epoll. Failure: a lost peer fails its
// messages; abort fails all, and has closed every socket when it returns.
class TcpTransport final : public Transport {
 public:
  TcpTransport(UniqueFd epoll, UniqueFd wake, UniqueFd listener,
               std::vector<rendezvous::PeerInfo> peers, int rank, const rendezvous::Secret& secret)
      : epoll_(std::move(epoll)),
        wake_(std::move(wake)),
        peers_(std::move(peers)),
        rank_(rank),
        dialer_(
            epoll_.get(), std::move(listener), peers_, rank, secret,
            {[this](int r, int channel, UniqueFd socket) { open(r, channel, std::move(socket)); },
             [this](int r, const std::string& reason) { unreachable(r, reason); }}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeId;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
    for (const auto& peer : peers_) {
      links_.push_back(std::make_unique<Link>(
          "rank " + std::to_string(peer.rank) + " on " + peer.host, finished_));
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  int wait_fd() const override { return epoll_.get(); }

  void send(int to, Tag tag, std::span<const std::byte> lent, Pending& pending) override {
    std::scoped_lock lock(mutex_);
    link(to).peer.send(tag, lent, pending);
    touch(to);
  }

  void recv(int from, Tag tag, std::span<std::byte> lent, Pending& pending) override {
    std::scoped_lock lock(mutex_);
    auto& from_link = link(from);
    const bool was_full = from_link.peer.is_full();
    from_link.peer.recv(tag, lent, pending);
    touch(from);
    if (was_full && !from_link.peer.is_full()) fill(from, 0, true);
  }

  bool progress(base::Deadline deadline) override {
    std::array<epoll_event, 32> events{};
    int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count == 0 && !deadline.passed() && seen_finished_ == finished_) {
      count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                           deadline.poll_ms());
    }
    std::scoped_lock lock(mutex_);
    if (abort_reason_) {
      for (auto& each : links_) each->peer.fail(*abort_reason_);
      return collect();
    }
    for (int i = 0; i < count; ++i) on_event(events[static_cast<std::size_t>(i)]);
    return collect();
  }

  void abort(const Error& why) override {
    std::scoped_lock lock(mutex_);
    if (abort_reason_) return;
    abort_reason_ = why;
    dialer_.close();
    for (auto& each : links_) each->close();
    const std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(wake_.get(), &one, sizeof one);
  }

 private:
  struct Link {
    Link(std::string name, std::uint64_t& finished) : peer(std::move(name), finished) {}
    void close() {
      for (auto& channel : channels) channel.reset();
    }
    TcpPeer peer;
    std::array<std::unique_ptr<TcpChannel>, kChannels> channels;
    bool ending = false;  // the peer has begun to close its connections
  };

  Link& link(int rank) { return *links_[static_cast<std::size_t>(rank)]; }

  // Whether messages have finished since the last call, in send() and recv() too.
  bool collect() { return std::exchange(seen_finished_, finished_) != finished_; }

  // After new work for a peer: connects or writes.
  void touch(int rank) {
    if (abort_reason_) return link(rank).peer.fail(*abort_reason_);
    if (link(rank).peer.error()) return link(rank).close();
    if (link(rank).channels[0]) {
      flush(rank);
    } else if (rank < rank_ && !link(rank).ending) {
      dialer_.connect(rank);
    }
  }

  void flush(int rank) {
    auto& to = link(rank);
    auto& control = to.peer.control();
    for (; to.channels[0] && !control.empty(); control.pop()) {
      to.channels[0]->push(control.front());
    }
    for (auto& channel : to.channels) {
      if (!channel || channel->blocked()) continue;
      if (auto fine = channel->flush(); !fine) return lose(rank, fine.error());
    }
  }

  void fill(int rank, int channel, bool to_end) {
    auto& from = link(rank);
    if (channel == 0 && from.peer.is_full()) return;
    auto& from_channel = from.channels[static_cast<std::size_t>(channel)];
    if (!from_channel) return;
    auto got = from_channel->fill(to_end);
    if (!got && is_closed(got.error())) return close(rank, channel, got.error());
    if (!got) return lose(rank, got.error());
    flush(rank);  // grants may have come in
  }

  void on_event(const epoll_event& event) {
    const std::uint64_t id = event.data.u64;
    if (TcpDialer::owns(id)) return dialer_.on_event(id);
    if (id == kWakeId) return;
    const int rank = static_cast<int>((id - 1) / kChannels);
    const int channel = static_cast<int>((id - 1) % kChannels);
    auto& slot = link(rank).channels[static_cast<std::size_t>(channel)];
    if (!slot) return;
    if ((event.events & EPOLLOUT) != 0) {
      if (auto fine = slot->flush(); !fine) return lose(rank, fine.error());
    }
    const bool ends = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (ends || (event.events & EPOLLIN) != 0) fill(rank, channel, ends);
  }

  void open(int rank, int channel, UniqueFd socket) {
    auto& to = link(rank);
    auto& slot = to.channels[static_cast<std::size_t>(channel)];
    if (slot || to.peer.error()) return;  // a second one of its kind
    slot = std::make_unique<TcpChannel>(std::move(socket), to.peer);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = channel_id(rank, channel);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, slot->fd(), &event);
    flush(rank);
  }

  static bool is_closed(const Error& error) {
    return error.code == Code::kPeerLost && error.sys == 0;
  }

  // A rank that goes closes all of its connections, in any order: what it has sent on the others
  // still counts.
  void close(int rank, int channel, const Error& error) {
    auto& from = link(rank);
    if (std::count(from.channels.begin(), from.channels.end(), nullptr) == kChannels - 1) {
      return lose(rank, error);
    }
    from.ending = true;
    from.channels[static_cast<std::size_t>(channel)].reset();
  }

  void lose(int rank, const Error& error) {
    auto& to = link(rank);
    if (error.code == Code::kPeerLost) {  // first what had arrived before
      for (auto& each : to.channels) {
        if (each) static_cast<void>(each->fill(true));
      }
    }
    const auto& channel = to.channels[0];
    const std::string address =
        channel ? " (" + to_string(rendezvous::remote_endpoint(channel->fd())) + ")" : "";
    Error full = error;
    if (full.code == Code::kPeerLost || full.code == Code::kProtocol) {
      full.text = to.peer.name() + address + ": " + error.text +
                  (full.code == Code::kPeerLost ? "; its own output says why" : "");
    }
    to.close();
    to.peer.fail(full);
  }

  void unreachable(int rank, const std::string& reasons) {
    link(rank).peer.fail({Code::kPeerLost,
                          link(rank).peer.name() + " cannot be reached: " + reasons +
                              "; a firewall may drop connections between the hosts",
                          {},
                          0});
  }

  UniqueFd epoll_, wake_;
  const std::vector<rendezvous::PeerInfo> peers_;
  const int rank_;
  std::mutex mutex_;
  std::uint64_t finished_ = 0, seen_finished_ = 0;  // the baton holder's
  std::vector<std::unique_ptr<Link>> links_;
  std::optional<Error> abort_reason_;
  TcpDialer dialer_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(UniqueFd listener,
                                                      std::vector<rendezvous::PeerInfo> peers,
                                                      int rank, const rendezvous::Secret& secret) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll || !wake) return base::fail(base::system_error("epoll", errno));
  return std::make_unique<TcpTransport>(std::move(epoll), std::move(wake), std::move(listener),
                                        std::move(peers), rank, secret);
}

}  // namespace hv::runtime
