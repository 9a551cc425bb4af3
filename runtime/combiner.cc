#include "runtime/combiner.h"

#include <utility>

namespace hv::runtime {

void Combiner::on_report(int rank, Report report) {
  for (NameId id : report.ready) {
    Count& count = counts_[id];
    if (count.told) {
      out_.known.push_back({rank, id, 0});
      continue;
    }
    count.ranks.push_back(rank);
    if (static_cast<int>(count.ranks.size()) == ranks_) {
      out_.ready.push_back(id);
      count.ranks.clear();
    }
  }
  for (Report::Fresh& fresh : report.fresh) {
    // Other parameters under a known name: the rest of the host can not be combined any more.
    if (auto known = ids_.find(fresh.name); known != ids_.end()) {
      tell(known->second, counts_[known->second]);
    }
    out_.fresh.push_back(std::move(fresh));
  }
  out_.known.insert(out_.known.end(), report.known.begin(), report.known.end());
  out_.left.insert(out_.left.end(), report.left.begin(), report.left.end());
  out_.heard = out_.heard || report.heard;
}

void Combiner::tell(NameId id, Count& count) {
  count.told = true;
  for (int rank : count.ranks) out_.known.push_back({rank, id, 0});
  count.ranks.clear();
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
      if (!batch.names.empty() && !batch.names[i].empty()) {
        ids_[batch.names[i]] = id;
        names_[id] = batch.names[i];
      }
    }
  }
  for (NameId id : decisions.forgotten) {
    counts_.erase(id);
    if (auto name = names_.find(id); name != names_.end()) {
      ids_.erase(name->second);
      names_.erase(name);
    }
  }
}

}  // namespace hv::runtime
