// Combiner: the brain of a host's leader where the coordinator sits on another host. An id that
// every rank of the host has announced (of those in the id's process set) goes up as one entry of a
// set.
//
// Thread: the baton holder's. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/names.h"
#include "runtime/negotiation.h"

namespace hv::runtime {

class Combiner {
 public:
  explicit Combiner(int ranks) { ranks_[0] = ranks; }

  void add_set(std::int32_t set, int ranks_here) { ranks_[set] = ranks_here; }
  void remove_set(std::int32_t set) { ranks_.erase(set); }
  void on_report(int rank, Report report);
  Report take();  // what to send up now
  bool empty() const { return out_.empty(); }
  void on_decisions(const Decisions& decisions);
  // All ranks of the set have joined. Since the first of this host has, ids went up rank by rank.
  void end_join(std::int32_t set) { joined_.erase(set); }
  // Tells the coordinator who of this host has announced what others here have not.
  void tell_partial();

 private:
  struct Count {
    std::vector<int> ranks;  // of this host, that have announced it
    bool told = false;       // rank by rank, because the host does not agree within itself
  };
  struct Known {
    std::int32_t set = 0;
    std::string name;
  };
  std::int32_t set_of(NameId id) const;
  void tell(NameId id, Count& count);
  void tell_set(std::int32_t set);

  std::map<std::int32_t, int> ranks_;  // of this host, per set
  std::set<std::int32_t> joined_;      // sets that ranks of this host have joined
  Report out_;
  std::unordered_map<NameId, Count> counts_;
  std::unordered_map<NameId, Known> known_;
  std::unordered_map<FullName, NameId, FullName::Hash> ids_;
};

}  // namespace hv::runtime
