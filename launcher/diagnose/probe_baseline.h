// What is usual among probed hosts, for each to be compared with. Pure.
#pragma once

#include <optional>
#include <vector>

#include "launcher/diagnose/probe_report.h"

namespace hv::launcher::diagnose {

struct WayFigures {
  std::optional<double> out_mbit, in_mbit, latency_us;
};

struct ProbeBaseline {
  // What each host has shown in its best round: a slow partner is not held against it.
  std::vector<WayFigures> best;

  // Of the host in the middle; nothing where too few have been measured to tell.
  WayFigures way;
  std::optional<double> cores, memory_gbyte_s;
  std::optional<std::size_t> gpus;  // of more than half of the hosts
  bool own_machines = true;         // else hosts that are one machine disturb each other
};
ProbeBaseline find_baseline(const ProbeFacts& facts);

// Everybody that answers has been measured, and nobody comes near to standing out: one more round
// would tell nothing new.
bool all_alike(const ProbeFacts& facts);

}  // namespace hv::launcher::diagnose
