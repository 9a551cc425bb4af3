// Combiner: the brain of a host's leader where the coordinator sits on another host. An id that
// every rank of the host has announced goes up as one entry of a set.
//
// Thread: the baton holder's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/negotiation.h"

namespace hv::runtime {

class Combiner {
 public:
  explicit Combiner(int ranks) : ranks_(ranks) {}

  void on_report(int rank, Report report);
  Report take();  // what to send up now
  bool empty() const { return out_.empty(); }
  void on_decisions(const Decisions& decisions);
  // Tells the coordinator who of this host has announced what others here have not.
  void tell_partial();

 private:
  struct Count {
    std::vector<int> ranks;  // of this host, that have announced it
    bool told = false;       // rank by rank, because the host does not agree within itself
  };
  void tell(NameId id, Count& count);

  const int ranks_;
  Report out_;
  std::unordered_map<NameId, Count> counts_;
  std::unordered_map<std::string, NameId> ids_;
  std::unordered_map<NameId, std::string> names_;
};

}  // namespace hv::runtime
