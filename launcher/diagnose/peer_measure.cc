#include "launcher/diagnose/peer_measure.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <vector>

#include "launcher/diagnose/peer_service.h"
#include "rendezvous/dial.h"

namespace hv::launcher::diagnose {

using base::Clock;
using base::Code;
using base::Deadline;
using base::Millis;
using base::Result;
using base::UniqueFd;
using rendezvous::Attempt;
using rendezvous::Endpoint;
using rendezvous::Purpose;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kStreams = 4;  // one does not fill a fast link
constexpr auto kConnectTime = 5s;
constexpr auto kWorkTime = 30s;
constexpr int kPings = 40;
// An address that does not answer has this long before the next one is tried beside it.
constexpr auto kBeforeTheNext = 300ms;

// A peer that is being tried at its addresses, best first.
class Calling {
 public:
  Calling(const rendezvous::ProbePeer& peer, const rendezvous::Secret& secret)
      : peer_(peer), secret_(secret) {
    attempts_.reserve(peer.endpoints.size());
  }

  std::vector<Attempt>& attempts() { return attempts_; }

  // Tries the next address when it is time to. True: nothing more can happen.
  bool settled(Clock::time_point now) {
    if (std::ranges::any_of(attempts_, &Attempt::proven)) return true;
    bool under_way = std::ranges::any_of(attempts_, &Attempt::under_way);
    if (attempts_.size() == peer_.endpoints.size()) return !under_way;
    if (under_way && now < next_at_) return false;
    const auto& endpoint = peer_.endpoints[attempts_.size()];
    attempts_.emplace_back(to_string(endpoint), rendezvous::to_socket_address(endpoint), secret_,
                           Purpose::kData);
    next_at_ = now + kBeforeTheNext;
    return false;
  }

  rendezvous::ReachedPeer outcome(Millis limit) {
    rendezvous::ReachedPeer reached;
    reached.host = peer_.host;
    for (std::size_t i = 0; i < attempts_.size(); ++i) {
      auto& attempt = attempts_[i];
      std::string why = attempt.error() ? attempt.error()->text
                                        : "no answer within " + std::to_string(limit.count()) +
                                              " ms: a firewall, or no way there";
      if (attempt.proven()) why = greet(i, reached);
      if (why.empty()) {
        reached.failure.clear();
        return reached;
      }
      reached.failure += (reached.failure.empty() ? "" : ", ") + attempt.name() + " (" + why + ")";
    }
    if (attempts_.empty()) reached.failure = "it has no address";
    return reached;
  }

 private:
  // Why it is not the one that was meant; empty: it is.
  std::string greet(std::size_t index, rendezvous::ReachedPeer& reached) {
    UniqueFd socket = attempts_[index].take_socket();
    PeerGreeting greeting;
    if (!set_blocking(socket.get(), kConnectTime) ||
        !read_whole(socket.get(), &greeting, sizeof greeting)) {
      return "the connection broke";
    }
    if (greeting.host != peer_.host) return "is another host of this list";
    greeting.seen_as[sizeof greeting.seen_as - 1] = '\0';
    reached.endpoint = peer_.endpoints[index];
    reached.local_address = rendezvous::local_endpoint(socket.get()).address;
    reached.seen_as = greeting.seen_as;
    return {};
  }

  const rendezvous::ProbePeer& peer_;
  const rendezvous::Secret& secret_;
  std::vector<Attempt> attempts_;  // of the first ones of the peer's addresses
  Clock::time_point next_at_;
};

void poll_once(std::vector<Calling>& callings, Deadline deadline) {
  std::vector<pollfd> polled;
  std::vector<Attempt*> under_way;
  for (auto& calling : callings) {
    for (auto& attempt : calling.attempts()) {
      if (!attempt.under_way()) continue;
      under_way.push_back(&attempt);
      polled.push_back({attempt.fd(), attempt.events(), 0});
    }
  }
  constexpr int kTick = 20;  // for who waits to try the next address
  ::poll(polled.data(), polled.size(), std::min(deadline.poll_ms(), kTick));
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) under_way[i]->on_event();
  }
}

// A connection to the service of that host, with its order given.
Result<UniqueFd> order_work(const rendezvous::MeasurePeer& peer, const rendezvous::Secret& secret,
                            PeerWork work) {
  std::vector<Attempt> attempts;
  attempts.emplace_back(to_string(peer.endpoint), rendezvous::to_socket_address(peer.endpoint),
                        secret, Purpose::kData);
  auto connected = rendezvous::first_proven(attempts, Deadline::after(kConnectTime));
  if (!connected) return base::fail(connected.error());
  UniqueFd socket = (*connected)->take_socket();
  PeerGreeting greeting;
  PeerOrder order{work, peer.ms};
  if (!set_blocking(socket.get(), kWorkTime) ||
      !read_whole(socket.get(), &greeting, sizeof greeting) || greeting.host != peer.host ||
      !write_whole(socket.get(), &order, sizeof order)) {
    return base::fail(Code::kPeerLost, to_string(peer.endpoint) + ": the connection broke");
  }
  return socket;
}

Result<double> shortest_ping(const rendezvous::MeasurePeer& peer,
                             const rendezvous::Secret& secret) {
  auto socket = order_work(peer, secret, PeerWork::kEcho);
  if (!socket) return base::fail(socket.error());
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kPings; ++i) {
    Ping ping{static_cast<std::uint64_t>(i)};
    auto begin = Clock::now();
    if (!write_whole(socket->get(), &ping, sizeof ping) ||
        !read_whole(socket->get(), &ping, sizeof ping)) {
      return base::fail(Code::kPeerLost, to_string(peer.endpoint) + ": the connection broke");
    }
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return best;
}

Result<Flow> one_flow(const rendezvous::MeasurePeer& peer, const rendezvous::Secret& secret,
                      PeerWork work) {
  auto socket = order_work(peer, secret, work);
  if (!socket) return base::fail(socket.error());
  if (work == PeerWork::kSource) return receive_flow(socket->get(), Millis(peer.ms));
  send_flow(socket->get(), Millis(peer.ms));
  Flow flow;
  if (read_whole(socket->get(), &flow, sizeof flow)) return flow;
  return base::fail(Code::kPeerLost, to_string(peer.endpoint) + ": the connection broke");
}

// Several at once. They do not begin at the same moment, so their speeds would add up to more than
// there is: what all brought is divided by the time from the first to the last.
Result<double> mbit_of_flows(const rendezvous::MeasurePeer& peer, const rendezvous::Secret& secret,
                             PeerWork work) {
  std::vector<std::future<Result<Flow>>> running;
  for (std::size_t i = 0; i < kStreams; ++i) {
    running.push_back(std::async(std::launch::async, [&] { return one_flow(peer, secret, work); }));
  }
  std::optional<base::Error> failed;
  Flow all{0, std::numeric_limits<std::int64_t>::max(), 0};
  for (auto& one : running) {
    auto flow = one.get();
    if (!flow) {
      failed = flow.error();
      continue;
    }
    all.bits += flow->bits;
    all.from_us = std::min(all.from_us, flow->from_us);
    all.to_us = std::max(all.to_us, flow->to_us);
  }
  if (failed) return base::fail(*failed);
  return all.to_us > all.from_us ? all.bits / static_cast<double>(all.to_us - all.from_us) : 0;
}

}  // namespace

rendezvous::PeersReached reach_peers(const rendezvous::ReachPeers& order,
                                     const rendezvous::Secret& secret) {
  auto deadline = Deadline::after(Millis(order.limit_ms));
  std::vector<Calling> callings;
  callings.reserve(order.peers.size());
  for (const auto& peer : order.peers) callings.emplace_back(peer, secret);
  auto open = [](Calling& calling) { return !calling.settled(Clock::now()); };
  while (!deadline.passed() && std::ranges::count_if(callings, open) > 0) {
    poll_once(callings, deadline);
  }
  rendezvous::PeersReached reached;
  for (auto& calling : callings) reached.peers.push_back(calling.outcome(Millis(order.limit_ms)));
  return reached;
}

Result<rendezvous::PeerMeasured> measure_peer(const rendezvous::MeasurePeer& order,
                                              const rendezvous::Secret& secret) {
  auto latency = shortest_ping(order, secret);
  if (!latency) return base::fail(latency.error());
  auto out = mbit_of_flows(order, secret, PeerWork::kSink);
  if (!out) return base::fail(out.error());
  auto in = mbit_of_flows(order, secret, PeerWork::kSource);
  if (!in) return base::fail(in.error());
  return rendezvous::PeerMeasured{*latency, *out, *in};
}

}  // namespace hv::launcher::diagnose
