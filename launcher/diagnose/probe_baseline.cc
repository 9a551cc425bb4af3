#include "launcher/diagnose/probe_baseline.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace hv::launcher::diagnose {

namespace {

std::optional<double> middle(std::vector<double> numbers) {
  if (numbers.empty()) return std::nullopt;
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

std::optional<std::size_t> of_most(const std::vector<std::size_t>& counts) {
  std::map<std::size_t, std::size_t> votes;
  for (auto count : counts) ++votes[count];
  for (const auto& [count, hosts] : votes) {
    if (hosts * 2 > counts.size()) return count;
  }
  return std::nullopt;
}

void keep_more(std::optional<double>& best, double value) {
  best = std::max(best.value_or(value), value);
}
void keep_less(std::optional<double>& best, double value) {
  best = std::min(best.value_or(value), value);
}

std::vector<WayFigures> best_rounds(const ProbeFacts& facts) {
  std::vector<WayFigures> best(facts.hosts.size());
  for (const auto& [from, to, measured, failure] : facts.pairs) {
    if (!failure.empty()) continue;
    keep_more(best[from].out_mbit, measured.out_mbit);
    keep_more(best[to].in_mbit, measured.out_mbit);
    keep_more(best[to].out_mbit, measured.in_mbit);
    keep_more(best[from].in_mbit, measured.in_mbit);
    keep_less(best[from].latency_us, measured.latency_us);
    keep_less(best[to].latency_us, measured.latency_us);
  }
  return best;
}

}  // namespace

ProbeBaseline find_baseline(const ProbeFacts& facts) {
  ProbeBaseline usual;
  usual.best = best_rounds(facts);
  std::vector<double> outs, ins, latencies, cores, memories;
  std::vector<std::size_t> gpus;
  std::set<std::string> machines;
  for (std::size_t i = 0; i < facts.hosts.size(); ++i) {
    const auto& host = facts.hosts[i];
    if (!host.failure.empty()) continue;
    if (const auto& best = usual.best[i]; best.latency_us) {
      outs.push_back(*best.out_mbit);
      ins.push_back(*best.in_mbit);
      latencies.push_back(*best.latency_us);
    }
    cores.push_back(host.probed.cores);
    if (host.probed.memory_gbyte_s > 0) memories.push_back(host.probed.memory_gbyte_s);
    gpus.push_back(host.probed.gpus.size());
    // The boot id, without the namespaces.
    machines.insert(host.hello.identity.substr(0, host.hello.identity.find(' ')));
  }
  // Two hosts cannot tell which of them is the odd one.
  if (latencies.size() > 2) usual.way = {middle(outs), middle(ins), middle(latencies)};
  usual.cores = middle(cores);
  usual.memory_gbyte_s = middle(memories);
  usual.gpus = of_most(gpus);
  usual.own_machines = machines.size() == cores.size();
  return usual;
}

bool all_alike(const ProbeFacts& facts) {
  constexpr double kNearly = 0.7, kLatencyTimes = 2, kLatencyAboveUs = 200;
  auto usual = find_baseline(facts);
  std::optional<double> shortest;
  for (const auto& best : usual.best) {
    if (best.latency_us) keep_less(shortest, *best.latency_us);
  }
  if (!usual.way.latency_us) return false;
  for (std::size_t i = 0; i < facts.hosts.size(); ++i) {
    if (!facts.hosts[i].failure.empty()) continue;
    const auto& best = usual.best[i];
    if (!best.latency_us || *best.out_mbit < *usual.way.out_mbit * kNearly ||
        *best.in_mbit < *usual.way.in_mbit * kNearly ||
        *best.latency_us > *shortest * kLatencyTimes + kLatencyAboveUs) {
      return false;
    }
  }
  return true;
}

}  // namespace hv::launcher::diagnose
