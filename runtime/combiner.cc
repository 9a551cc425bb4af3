#include "runtime/combiner.h"

#include <utility>

namespace hv::runtime {

void Combiner::on_report(int rank, Report report) {
  for (NameId id : report.ready) {
    const std::int32_t set = set_of(id);
    Count& count = counts_[id];
    if (count.told || joined_.contains(set)) {
      out_.known.push_back({rank, id, {}});
      continue;
    }
    count.ranks.push_back(rank);
    if (static_cast<int>(count.ranks.size()) == ranks_[set]) {
      out_.ready.push_back(id);
      count.ranks.clear();
    }
  }
  for (Report::Fresh& fresh : report.fresh) {
    // Other parameters under a known name: the rest of the host can not be combined any more.
    if (auto id = ids_.find({fresh.signature.set, fresh.name}); id != ids_.end()) {
      tell(id->second, counts_[id->second]);
    }
    if (fresh.signature.kind == OpKind::kJoin) tell_set(fresh.signature.set);
    out_.fresh.push_back(std::move(fresh));
  }
  out_.known.insert(out_.known.end(), report.known.begin(), report.known.end());
  out_.left.insert(out_.left.end(), report.left.begin(), report.left.end());
  out_.heard = out_.heard || report.heard;
}

std::int32_t Combiner::set_of(NameId id) const {
  const auto known = known_.find(id);
  return known == known_.end() ? 0 : known->second.set;
}

void Combiner::tell(NameId id, Count& count) {
  count.told = true;
  for (int rank : count.ranks) out_.known.push_back({rank, id, {}});
  count.ranks.clear();
}

void Combiner::tell_set(std::int32_t set) {
  joined_.insert(set);
  for (auto& [id, count] : counts_) {
    if (!count.ranks.empty() && set_of(id) == set) tell(id, count);
  }
}

void Combiner::tell_partial() {
  for (auto& [id, count] : counts_) {
    if (!count.ranks.empty()) tell(id, count);
  }
}

Report Combiner::take() { return std::exchange(out_, {}); }

void Combiner::on_decisions(const Decisions& decisions) {
  for (const BatchDecision& batch : decisions.batches) {
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const NameId id = batch.ids[i];
      if (id == 0) continue;
      if (auto count = counts_.find(id); count != counts_.end()) count->second.told = false;
      if (batch.names.empty() || batch.names[i].empty() || known_.contains(id)) continue;
      const Known& known = known_[id] = {batch.set, batch.names[i]};
      ids_[{known.set, known.name}] = id;
    }
  }
  for (NameId id : decisions.forgotten) {
    counts_.erase(id);
    if (auto known = known_.find(id); known != known_.end()) {
      ids_.erase(ids_.find({known->second.set, known->second.name}));
      known_.erase(known);
    }
  }
}

}  // namespace hv::runtime
