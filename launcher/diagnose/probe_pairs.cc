#include "launcher/diagnose/probe_pairs.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace hv::launcher::diagnose {

namespace {

bool have_met(const std::vector<HostPair>& before, std::size_t a, std::size_t b) {
  return std::ranges::any_of(before, [&](const HostPair& pair) {
    return pair == HostPair{a, b} || pair == HostPair{b, a};
  });
}

std::optional<HostPair> joined(std::size_t a, std::size_t b, const Reaches& reaches) {
  if (reaches(a, b)) return HostPair{a, b};
  if (reaches(b, a)) return HostPair{b, a};
  return std::nullopt;
}

}  // namespace

std::vector<HostPair> pair_up(const std::vector<double>& speeds, const Reaches& reaches,
                              const std::vector<HostPair>& before) {
  std::vector<std::size_t> left(speeds.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::ranges::stable_sort(left, {}, [&](std::size_t host) { return speeds[host]; });
  std::vector<HostPair> round;
  while (left.size() > 1) {
    auto slowest = left.front();
    left.erase(left.begin());
    auto partner = left.rend();
    for (auto at = left.rbegin(); at != left.rend(); ++at) {
      if (!joined(slowest, *at, reaches)) continue;
      bool met = have_met(before, slowest, *at);
      if (!met || partner == left.rend()) partner = at;
      if (!met) break;
    }
    if (partner == left.rend()) continue;
    round.push_back(*joined(slowest, *partner, reaches));
    left.erase(std::next(partner).base());
  }
  return round;
}

int rounds_for(std::size_t hosts) { return hosts < 2 ? 0 : hosts % 2 == 0 ? 2 : 3; }

}  // namespace hv::launcher::diagnose
