// Who is measured with whom. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace hv::launcher::diagnose {

struct HostPair {
  std::size_t from = 0, to = 0;  // `from` connects
  bool operator==(const HostPair&) const = default;
};

// Can `from` connect to `to`?
using Reaches = std::function<bool(std::size_t from, std::size_t to)>;

// Pairs for one round: each host has at most one partner, the slowest gets the fastest that it has
// not met `before`, so that a slow host shows as slow and its partner of last time as innocent.
// `speeds`: what each host has shown so far; negative: nothing, which counts as slowest.
std::vector<HostPair> pair_up(const std::vector<double>& speeds, const Reaches& reaches,
                              const std::vector<HostPair>& before);

// Rounds that tell a slow host from its partners: two, or three where one sits out each round.
int rounds_for(std::size_t hosts);

}  // namespace hv::launcher::diagnose
