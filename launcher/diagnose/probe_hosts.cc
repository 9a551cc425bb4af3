#include "launcher/diagnose/probe_hosts.h"

#include <algorithm>
#include <chrono>

#include "launcher/diagnose/ib_advice.h"
#include "launcher/diagnose/probe_baseline.h"
#include "launcher/diagnose/probe_pairs.h"
#include "rendezvous/base/log.h"

namespace hv::launcher::diagnose {

using base::Millis;
using base::Result;
using namespace std::chrono_literals;

namespace {

constexpr auto kLookTime = 30s;
constexpr auto kClockTime = 5s;
constexpr int kClockRounds = 3;
constexpr auto kMeasureTime = 30s;
constexpr auto kIbTime = 30s;
// A host connects to this many others at most: the next ones in the list.
constexpr std::size_t kMaxPeers = 64;
constexpr std::uint16_t kIbPort = 18515;  // perftest's own

double ms_of(base::Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// One probe, from its first question to its last.
class Probing {
 public:
  template <class T>
  using Task = Survey::Task<T>;
  template <class T>
  using Orders = std::vector<std::optional<T>>;

  Probing(const JobSpec& spec, const Plan& plan, const ProbeDepth& depth)
      : spec_(spec), plan_(plan), depth_(depth) {
    auto count = plan.hosts.size();
    facts_.reached.resize(count);
    for (auto& row : facts_.reached) row.resize(count);
    for (const auto& host : plan.hosts) {
      facts_.hosts.emplace_back();
      facts_.hosts.back().name = host.host.name;
    }
    gathered_.resize(count);
  }

  Task<void> run(Survey& survey) {
    co_await meet(survey);
    co_await look(survey);
    co_await ask_clocks(survey);
    co_await reach(survey);
    auto rounds = rounds_for(count_up());
    for (int round = 0; round < rounds; ++round) {
      if (!depth_.all_rounds && all_alike(facts_)) break;
      co_await measure(survey);
    }
    if (depth_.ib) co_await measure_ib(survey);
  }

  ProbeFacts take() { return std::move(facts_); }

 private:
  std::size_t count() const { return facts_.hosts.size(); }
  bool is_up(std::size_t host) const { return facts_.hosts[host].failure.empty(); }
  std::size_t count_up() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(facts_.hosts, [](auto& host) { return host.failure.empty(); }));
  }
  void fail(std::size_t host, const base::Error& why) {
    if (is_up(host)) facts_.hosts[host].failure = why.text;
  }
  template <class Order>
  Orders<Order> to_all(const Order& order) const {
    Orders<Order> orders(count());
    for (std::size_t i = 0; i < count(); ++i) {
      if (is_up(i)) orders[i] = order;
    }
    return orders;
  }

  Task<void> meet(Survey& survey) {
    auto gathered = co_await survey.gather();
    for (std::size_t i = 0; i < count(); ++i) {
      if (!gathered[i]) {
        fail(i, gathered[i].error());
        continue;
      }
      gathered_[i] = *gathered[i];
      facts_.hosts[i].hello = gathered[i]->hello;
    }
  }

  Task<void> look(Survey& survey) {
    rendezvous::ProbeHost order{static_cast<std::uint32_t>(depth_.memory.count()), spec_.port_low,
                                spec_.port_high};
    auto answers = co_await survey.ask<rendezvous::HostProbed>(to_all(order), kLookTime);
    for (std::size_t i = 0; i < count(); ++i) {
      if (answers[i]) {
        facts_.hosts[i].probed = *answers[i];
      } else {
        fail(i, answers[i].error());
      }
    }
  }

  // The answer that came back soonest tells the time best.
  Task<void> ask_clocks(Survey& survey) {
    for (int round = 0; round < kClockRounds; ++round) {
      auto asked = std::chrono::system_clock::now();
      auto orders = to_all(rendezvous::TellClock{});
      auto answers = co_await survey.ask<rendezvous::ClockTold>(std::move(orders), kClockTime);
      for (std::size_t i = 0; i < count(); ++i) {
        if (!answers[i]) {
          fail(i, answers[i].error());
          continue;
        }
        auto way = survey.answered_after(i);
        std::chrono::system_clock::time_point told{std::chrono::microseconds(answers[i]->clock_us)};
        auto& host = facts_.hosts[i];
        if (host.clock_ms && ms_of(way) / 2 >= host.clock_error_ms) continue;
        host.clock_ms =
            std::chrono::duration<double, std::milli>(told - asked).count() - ms_of(way) / 2;
        host.clock_error_ms = ms_of(way) / 2;
      }
    }
  }

  // Addresses as a job would choose them.
  std::vector<std::vector<rendezvous::Endpoint>> endpoints() const {
    Plan up = plan_;
    std::vector<HostFacts> facts;
    std::vector<std::size_t> indices;
    up.hosts.clear();
    for (std::size_t i = 0; i < count(); ++i) {
      if (!is_up(i)) continue;
      up.hosts.push_back(plan_.hosts[i]);
      facts.push_back(gathered_[i]);
      indices.push_back(i);
    }
    auto nics = make_nic_plan(spec_, up, {}, facts);
    for (const auto& note : nics.notes) base::log(base::LogLevel::kInfo, note);
    std::vector<std::vector<rendezvous::Endpoint>> all(count());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (const auto& address : nics.hosts[i].addresses) {
        all[indices[i]].push_back({address, facts_.hosts[indices[i]].probed.port});
      }
    }
    return all;
  }

  Task<void> reach(Survey& survey) {
    if (count_up() < 2) co_return;
    auto all = endpoints();
    auto orders =
        to_all(rendezvous::ReachPeers{{}, static_cast<std::uint32_t>(depth_.reach.count())});
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t step = 1; orders[i] && step < count(); ++step) {
        auto peer = (i + step) % count();
        if (!is_up(peer) || orders[i]->peers.size() >= kMaxPeers) continue;
        orders[i]->peers.push_back({static_cast<std::uint32_t>(peer), all[peer]});
      }
    }
    auto answers =
        co_await survey.ask<rendezvous::PeersReached>(std::move(orders), depth_.reach + kClockTime);
    for (std::size_t i = 0; i < count(); ++i) {
      if (!answers[i]) {
        fail(i, answers[i].error());
        continue;
      }
      for (auto& peer : answers[i]->peers) {
        if (peer.host >= count()) continue;
        auto& address = facts_.hosts[peer.host].address;
        if (address.empty()) address = peer.endpoint.address;
        facts_.reached[i][peer.host] = std::move(peer);
      }
    }
  }

  bool reaches(std::size_t from, std::size_t to) const {
    const auto& reached = facts_.reached[from][to];
    return is_up(from) && is_up(to) && reached && reached->failure.empty();
  }

  std::vector<HostPair> next_pairs() const {
    std::vector<double> speeds(count(), -1);
    std::vector<HostPair> before;
    for (const auto& pair : facts_.pairs) {
      before.push_back({pair.from, pair.to});
      if (!pair.failure.empty()) continue;
      auto speed = std::min(pair.measured.out_mbit, pair.measured.in_mbit);
      for (auto host : {pair.from, pair.to}) speeds[host] = std::max(speeds[host], speed);
    }
    return pair_up(
        speeds, [this](std::size_t from, std::size_t to) { return reaches(from, to); }, before);
  }

  Task<void> measure(Survey& survey) {
    auto pairs = next_pairs();
    Orders<rendezvous::MeasurePeer> orders(count());
    for (const auto& [from, to] : pairs) {
      orders[from] = rendezvous::MeasurePeer{static_cast<std::uint32_t>(to),
                                             facts_.reached[from][to]->endpoint,
                                             static_cast<std::uint32_t>(depth_.flow.count())};
    }
    auto answers = co_await survey.ask<rendezvous::PeerMeasured>(std::move(orders), kMeasureTime);
    for (const auto& [from, to] : pairs) {
      const auto& answer = answers[from];
      facts_.pairs.push_back({from, to, answer.value_or(rendezvous::PeerMeasured{}),
                              answer ? "" : answer.error().text});
    }
  }

  // Pairs of hosts that have cards and perftest; both ends are asked at once.
  Task<void> measure_ib(Survey& survey) {
    std::vector<IbAdvice> advice;
    for (const auto& host : facts_.hosts) advice.push_back(advise(host.hello.cards, {}));
    auto able = [&](std::size_t i) {
      return is_up(i) && facts_.hosts[i].probed.perftest && !advice[i].ports.empty();
    };
    auto pairs = pair_up(std::vector<double>(count(), -1),
                         [&](std::size_t from, std::size_t to) {
                           return reaches(from, to) && able(from) && able(to);
                         },
                         {});
    if (pairs.empty()) co_return;
    Orders<rendezvous::MeasureIb> orders(count());
    for (const auto& [from, to] : pairs) {
      orders[to] = ib_order(advice[to], {});
      orders[from] = ib_order(advice[from], facts_.reached[from][to]->endpoint.address);
    }
    auto answers = co_await survey.ask<rendezvous::IbMeasured>(std::move(orders), kIbTime);
    for (const auto& [from, to] : pairs) {
      const auto& answer = answers[from];
      facts_.ib.push_back({from, to, answer ? answer->gbit : 0, answer ? "" : answer.error().text});
    }
  }

  static rendezvous::MeasureIb ib_order(const IbAdvice& advice, const std::string& server) {
    const auto& port = advice.ports.front();
    auto colon = port.rfind(':');
    return {port.substr(0, colon), std::stoi(port.substr(colon + 1)), advice.gid_index, server,
            kIbPort};
  }

  const JobSpec& spec_;
  const Plan& plan_;
  const ProbeDepth& depth_;
  ProbeFacts facts_;
  std::vector<HostFacts> gathered_;  // of hosts that are up
};

}  // namespace

Result<HostsProbed> probe_hosts(boost::asio::io_context& io, const JobSpec& spec, const Plan& plan,
                                std::vector<SpawnGroup> spawners, const ProbeDepth& depth) {
  Probing probing(spec, plan, depth);
  auto end = run_survey(io, spec, plan, std::move(spawners),
                        [&](Survey& survey) { return probing.run(survey); });
  if (!end) return base::fail(end.error());
  return HostsProbed{probing.take(), end->interrupted_by};
}

}  // namespace hv::launcher::diagnose
