#include "launcher/agent/signal_ledger.h"

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

void SignalLedger::on_request(const rendezvous::SignalRanks& request, Time now) {
  auto had = had_.find(request.signal);
  if (had != had_.end() && now - had->second < kSame) return;
  held_.push_back({now + kWaitForSlurm, request});
}

std::vector<rendezvous::SignalRanks> SignalLedger::due(Time now) {
  std::vector<rendezvous::SignalRanks> requests;
  while (!held_.empty() && held_.front().due <= now) {
    requests.push_back(held_.front().request);
    held_.erase(held_.begin());
  }
  return requests;
}

SignalLedger::Time SignalLedger::next() const {
  return held_.empty() ? Time::max() : held_.front().due;
}

}  // namespace hv::launcher
