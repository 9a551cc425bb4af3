#include "launcher/agent/signal_ledger.h"

#include <algorithm>

namespace hv::launcher {

using namespace std::chrono_literals;

namespace {
// Slurm tells the nodes of a job one after the other, and hvrun somewhere among them.
constexpr auto kWaitForSlurm = 1s;
constexpr auto kSame = 5s;
}  // namespace

void SignalLedger::on_scheduler(int signal, Time now) {
  had_[signal] = now;
  std::erase_if(held_, [&](const Held& held) { return held.request.signal == signal; });
}

bool SignalLedger::on_keeper(int signal, Time now) {
  if (had_lately(signal, now)) return false;
  auto held = std::ranges::find(held_, signal, [](const Held& one) { return one.request.signal; });
  if (held == held_.end()) held = held_.insert(held_.end(), {now + kWaitForSlurm, {signal}});
  held->of_slurm = true;
  return true;
}

void SignalLedger::on_request(const rendezvous::SignalRanks& request, Time now) {
  bool comes_anyway = std::ranges::any_of(held_, [&](const Held& held) {
    return held.of_slurm && held.request.signal == request.signal;
  });
  if (comes_anyway || had_lately(request.signal, now)) return;
  held_.push_back({now + kWaitForSlurm, request});
}

bool SignalLedger::had_lately(int signal, Time now) const {
  auto had = had_.find(signal);
  return had != had_.end() && now - had->second < kSame;
}

std::vector<rendezvous::SignalRanks> SignalLedger::due(Time now) {
  std::vector<rendezvous::SignalRanks> requests;
  while (!held_.empty() && held_.front().due <= now) {
    requests.push_back(held_.front().request);
    if (held_.front().of_slurm) had_[requests.back().signal] = now;
    held_.erase(held_.begin());
  }
  return requests;
}

SignalLedger::Time SignalLedger::next() const {
  return held_.empty() ? Time::max() : held_.front().due;
}

}  // namespace hv::launcher
