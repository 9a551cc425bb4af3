// Hosts, and the Plan: which rank sits where. Values without I/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace hv::launcher {

struct HostSpec {      // one host as the user gave it
  std::string name;    // exactly as typed: "h1", "10.0.0.3", "::1"
  std::string user;    // "user@host"; empty: what ssh would take
  int ssh_port = 0;    // 0: what ssh would take
  int slots = 0;       // 0: none given
  std::string source;  // "-H", "hosts.txt:3:1", "Slurm": for messages
};

struct RankPlan {
  int rank = 0;
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;  // among the hosts that have this local rank
};

struct HostPlan {
  std::uint32_t index = 0;
  HostSpec host;
  bool local = false;  // this machine: no ssh needed
  std::vector<RankPlan> ranks;
};

struct Plan {
  std::uint32_t epoch = 0;
  int size = 0;
  std::vector<HostPlan> hosts;  // only hosts that have ranks, in the order given
};

// Ranks go to hosts in the order given, up to their slots; rank 0 on the first host. np = 0: all
// slots. kUsage with the table host → slots → source when the slots do not suffice; oversubscribed,
// each host takes more in proportion.
base::Result<Plan> make_plan(const std::vector<HostSpec>& hosts, int np, std::uint32_t epoch,
                             bool oversubscribe = false);

}  // namespace hv::launcher
