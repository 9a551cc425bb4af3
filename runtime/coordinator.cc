#include "runtime/coordinator.h"

#include <algorithm>
#include <bit>

#include "rendezvous/codec.h"
#include "runtime/mismatch.h"

namespace hv::runtime {
namespace {

base::Result<void> nonsense(std::string what) {
  return base::fail(base::Code::kProtocol, "negotiation: " + std::move(what));
}

bool has(const std::vector<std::uint64_t>& mask, int rank) {
  return (mask[rank / 64] >> (rank % 64) & 1) != 0;
}

bool is_busy(const std::vector<std::int32_t>& busy, std::int32_t set) {
  return std::find(busy.begin(), busy.end(), set) != busy.end();
}

}  // namespace

Coordinator::Coordinator(int size, const std::vector<std::vector<int>>& speakers, Options options)
    : size_(size), options_(options) {
  for (const auto& ranks : speakers) speakers_.push_back({ranks, mask_of(ranks)});
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank) {
    single_.push_back(mask_of({rank}));
    all.push_back(rank);
  }
  add_set(0, all);
}

Coordinator::Mask Coordinator::mask_of(const std::vector<int>& ranks) const {
  Mask mask((size_ + 63) / 64);
  for (int rank : ranks) mask[rank / 64] |= std::uint64_t{1} << (rank % 64);
  return mask;
}

void Coordinator::add_set(std::int32_t id, const std::vector<int>& ranks) {
  sets_[id] = Set{ranks, mask_of(ranks), Mask((size_ + 63) / 64), 0, 0};
}

// ---- reports ---------------------------------------------------------------------------------

base::Result<void> Coordinator::on_report(std::size_t index, const Report& report) {
  const Speaker& speaker = speakers_[index];
  for (std::int32_t rank : report.left) {
    if (!valid(rank)) return nonsense("rank " + std::to_string(rank) + " does not exist");
    on_left(rank);
  }
  if (someone_left_) return {};  // nothing can become ready any more
  for (NameId id : report.ready) {
    Tensor* tensor = find(id);
    if (!tensor) continue;  // forgotten meanwhile; its ranks announce it again by name
    if (auto ok = announce(*tensor, speaker.mask); !ok) return ok;
  }
  for (const Report::Known& known : report.known) {
    if (!valid(known.rank)) return nonsense("a report from an unknown rank");
    Tensor* tensor = find(known.id);
    if (!tensor) continue;
    if (auto ok = announce_one(*tensor, known.rank, tensor->agreed.kind, known.rows); !ok) {
      return ok;
    }
  }
  for (const Report::Fresh& fresh : report.fresh) {
    if (!valid(fresh.rank)) return nonsense("a report from an unknown rank");
    if (auto ok = on_fresh(fresh); !ok) return ok;
  }
  return {};
}

base::Result<void> Coordinator::on_fresh(const Report::Fresh& fresh) {
  const auto set = sets_.find(fresh.signature.set);
  if (set == sets_.end() || !has(set->second.mask, fresh.rank)) {
    return nonsense("'" + fresh.name + "' is of process set " +
                    std::to_string(fresh.signature.set) + ", which has no rank " +
                    std::to_string(fresh.rank));
  }
  Tensor& tensor = by_name(fresh.signature.set, fresh.name);
  tensor.in_full = true;
  if (tensor.id == 0 || tensor.agreed != fresh.signature) {
    auto offer = std::find_if(tensor.offers.begin(), tensor.offers.end(), [&](const Offer& known) {
      return known.signature == fresh.signature;
    });
    if (offer == tensor.offers.end()) {
      offer = tensor.offers.insert(offer, {fresh.signature, {}});
    }
    offer->ranks.push_back(fresh.rank);
  }
  if (fresh.signature.kind == OpKind::kJoin) on_join(set->second, fresh.rank);
  return announce_one(tensor, fresh.rank, fresh.signature.kind, fresh.rows);
}

base::Result<void> Coordinator::announce_one(Tensor& tensor, int rank, OpKind kind,
                                             const std::vector<std::int64_t>& rows) {
  if (!rows.empty()) {
    const std::size_t each = rows_per_rank(kind, tensor.set->ranks.size());
    const auto& ranks = tensor.set->ranks;
    const auto index = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
    if (each == rows.size()) {  // else the kinds differ, which is a mismatch
      tensor.rows.resize(each * ranks.size());
      std::copy(rows.begin(), rows.end(),
                tensor.rows.begin() + index * static_cast<std::ptrdiff_t>(each));
    }
  }
  return announce(tensor, single_[rank]);
}

base::Result<void> Coordinator::announce(Tensor& tensor, const Mask& mask) {
  tensor.who.resize(mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const std::uint64_t members = mask[i] & tensor.set->mask[i];
    if (tensor.who[i] & members) return nonsense("'" + tensor.name + "' was announced twice");
    tensor.who[i] |= members;
    tensor.announced += std::popcount(members);
  }
  if (is_complete(tensor) && !std::exchange(tensor.ready, true)) ready_.push_back(&tensor);
  return {};
}

bool Coordinator::is_complete(const Tensor& tensor) const {
  const Set& set = *tensor.set;
  if (set.joined_count == 0) return tensor.announced == set.size();
  if (tensor.announced == 0) return false;
  // A join itself waits for every rank.
  const bool is_join =
      !tensor.offers.empty() && tensor.offers.front().signature.kind == OpKind::kJoin;
  for (std::size_t i = 0; i < set.mask.size(); ++i) {
    const std::uint64_t there = tensor.who[i] | (is_join ? 0 : set.joined[i]);
    if ((there & set.mask[i]) != set.mask[i]) return false;
  }
  return true;
}

// What waited for this rank only goes on without it, before everyone has joined.
void Coordinator::on_join(Set& set, int rank) {
  set.joined[rank / 64] |= std::uint64_t{1} << (rank % 64);
  set.joined_count += 1;
  set.last_joined = rank;
  std::vector<Tensor*> complete;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor->set == &set && !tensor->ready && is_complete(*tensor)) {
      complete.push_back(tensor.get());
    }
  }
  std::sort(complete.begin(), complete.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  for (Tensor* tensor : complete) {
    tensor->ready = true;
    ready_.push_back(tensor);
  }
}

void Coordinator::on_left(int rank) {
  new_left_.push_back(rank);
  someone_left_ = true;
}

Coordinator::Tensor* Coordinator::find(NameId id) {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Coordinator::Tensor& Coordinator::by_name(std::int32_t set, std::string_view name) {
  if (auto found = tensors_.find({set, name}); found != tensors_.end()) return *found->second;
  auto tensor = std::make_unique<Tensor>();
  tensor->name = name;
  tensor->set_id = set;
  tensor->set = &sets_.at(set);
  const FullName full = tensor->full();
  return *tensors_.emplace(full, std::move(tensor)).first->second;
}

std::vector<int> Coordinator::ranks_without(const Tensor& tensor) const {
  std::vector<int> ranks;
  for (int rank : tensor.set->ranks) {
    if (!has(tensor.who, rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Coordinator::Missing> Coordinator::missing() const {
  std::vector<Missing> all;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor->announced == 0 || tensor->ready) continue;
    all.push_back(
        {tensor->name,
         tensor->offers.empty() ? tensor->agreed.kind : tensor->offers.front().signature.kind,
         ranks_without(*tensor), tensor->set_id});
  }
  std::sort(all.begin(), all.end(), [](const Missing& a, const Missing& b) {
    return std::pair(a.set, std::string_view(a.name)) < std::pair(b.set, std::string_view(b.name));
  });
  return all;
}

bool Coordinator::has_news(const std::vector<std::int32_t>& busy) const {
  if (!new_left_.empty()) return true;
  if (busy.empty()) return !ready_.empty();
  return std::any_of(ready_.begin(), ready_.end(),
                     [&](const Tensor* tensor) { return !is_busy(busy, tensor->set_id); });
}

}  // namespace hv::runtime
