#include "runtime/coordinator.h"

#include <algorithm>
#include <limits>

#include "rendezvous/base/text.h"
#include "rendezvous/codec.h"
#include "runtime/fusion.h"
#include "runtime/mismatch.h"

namespace hv::runtime {
namespace {

base::Result<void> nonsense(std::string what) {
  return base::fail(base::Code::kProtocol, "negotiation: " + std::move(what));
}

}  // namespace

Coordinator::Coordinator(int size, const std::vector<std::vector<int>>& speakers, Options options)
    : size_(size), options_(options) {
  for (const auto& ranks : speakers) speakers_.push_back({ranks, mask_of(ranks)});
  for (int rank = 0; rank < size; ++rank) single_.push_back(mask_of({rank}));
}

Coordinator::Mask Coordinator::mask_of(const std::vector<int>& ranks) const {
  Mask mask((size_ + 63) / 64);
  for (int rank : ranks) mask[rank / 64] |= std::uint64_t{1} << (rank % 64);
  return mask;
}

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
    if (auto ok = announce(*tensor, speaker.mask, static_cast<int>(speaker.ranks.size())); !ok) {
      return ok;
    }
  }
  for (const Report::Known& known : report.known) {
    if (!valid(known.rank)) return nonsense("a report from an unknown rank");
    Tensor* tensor = find(known.id);
    if (!tensor) continue;
    if (auto ok = announce_one(*tensor, known.rank, known.rows); !ok) return ok;
  }
  for (const Report::Fresh& fresh : report.fresh) {
    if (!valid(fresh.rank)) return nonsense("a report from an unknown rank");
    if (auto ok = on_fresh(fresh); !ok) return ok;
  }
  return {};
}

base::Result<void> Coordinator::on_fresh(const Report::Fresh& fresh) {
  Tensor& tensor = by_name(fresh.name);
  if (tensor.id == 0 || tensor.agreed != fresh.signature) {
    auto offer = std::find_if(tensor.offers.begin(), tensor.offers.end(), [&](const Offer& known) {
      return known.signature == fresh.signature;
    });
    if (offer == tensor.offers.end()) {
      offer = tensor.offers.insert(offer, {fresh.signature, {}});
    }
    offer->ranks.push_back(fresh.rank);
  }
  return announce_one(tensor, fresh.rank, fresh.rows);
}

base::Result<void> Coordinator::announce_one(Tensor& tensor, int rank, std::int64_t rows) {
  if (tensor.rows.empty()) tensor.rows.resize(size_);
  tensor.rows[rank] = rows;
  return announce(tensor, single_[rank], 1);
}

base::Result<void> Coordinator::announce(Tensor& tensor, const Mask& mask, int ranks) {
  tensor.who.resize(mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (tensor.who[i] & mask[i]) return nonsense("'" + tensor.name + "' was announced twice");
    tensor.who[i] |= mask[i];
  }
  tensor.announced += ranks;
  if (tensor.announced == size_) ready_.push_back(&tensor);
  return {};
}

void Coordinator::on_left(int rank) {
  new_left_.push_back(rank);
  someone_left_ = true;
}

Coordinator::Tensor* Coordinator::find(NameId id) {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Coordinator::Tensor& Coordinator::by_name(std::string_view name) {
  auto [place, added] = tensors_.try_emplace(std::string(name));
  if (added) {
    place->second = std::make_unique<Tensor>();
    place->second->name = name;
  }
  return *place->second;
}

Decisions Coordinator::decide() {
  Decisions out;
  // By id, that is in the order of first use; new names follow as they came.
  std::stable_sort(ready_.begin(), ready_.end(),
                   [](const Tensor* a, const Tensor* b) { return a->id - 1 < b->id - 1; });
  std::vector<Tensor*> good;
  std::vector<FuseItem> items;
  for (Tensor* tensor : ready_) {
    if (std::string text = mismatch(*tensor); !text.empty()) {
      out.batches.push_back(refuse(*tensor, std::move(text)));
      settle(*tensor);
      continue;
    }
    if (tensor->offers.size() == 1) tensor->agreed = tensor->offers.front().signature;
    std::int64_t all_rows = 0;
    if (tensor->agreed.kind == OpKind::kAllgather) {
      for (std::int64_t rows : tensor->rows) all_rows += rows;
    }
    good.push_back(tensor);
    items.push_back({&tensor->agreed, result_bytes(tensor->agreed, all_rows)});
  }
  for (const auto& group : fuse(items, options_.fusion_bytes)) {
    BatchDecision& batch = out.batches.emplace_back();
    batch.sequence = next_sequence_++;
    for (std::size_t i : group) {
      Tensor& tensor = *good[i];
      const bool by_name = !tensor.offers.empty();
      if (tensor.id == 0 && options_.cache_names > 0) {
        tensor.id = next_id_++;
        by_id_[tensor.id] = &tensor;
      }
      tensor.last_used = batch.sequence;
      if (by_name) {
        batch.names.resize(group.size());
        batch.names[batch.ids.size()] = tensor.name;
      }
      batch.ids.push_back(tensor.id);
      if (tensor.agreed.kind == OpKind::kAllgather) {
        batch.rows.insert(batch.rows.end(), tensor.rows.begin(), tensor.rows.end());
      }
    }
  }
  for (Tensor* tensor : good) settle(*tensor);
  ready_.clear();
  out.forgotten = forget_old();
  out.left = std::exchange(new_left_, {});
  return out;
}

std::string Coordinator::mismatch(const Tensor& tensor) const {
  std::size_t offered = 0;
  std::vector<Side> sides;
  for (const Offer& offer : tensor.offers) {
    offered += offer.ranks.size();
    sides.push_back({&offer.signature, offer.ranks});
  }
  if (offered < static_cast<std::size_t>(size_)) {  // the others announced what was agreed before
    std::vector<int> others;
    for (int rank = 0; rank < size_; ++rank) {
      const bool is_offered =
          std::any_of(tensor.offers.begin(), tensor.offers.end(), [rank](const Offer& offer) {
            return std::find(offer.ranks.begin(), offer.ranks.end(), rank) != offer.ranks.end();
          });
      if (!is_offered) others.push_back(rank);
    }
    sides.push_back({&tensor.agreed, others});
  }
  return sides.size() < 2 ? std::string() : describe_mismatch(tensor.name, std::move(sides));
}

BatchDecision Coordinator::refuse(Tensor& tensor, std::string text) {
  BatchDecision batch;
  batch.sequence = next_sequence_++;
  batch.ids = {tensor.id};
  if (tensor.id == 0) batch.names = {tensor.name};
  batch.error =
      rendezvous::to_wire(base::Error{base::Code::kMismatch, std::move(text), "coordinator", 0});
  return batch;
}

void Coordinator::settle(Tensor& tensor) {
  if (tensor.id == 0) {
    tensors_.erase(std::string(tensor.name));
    return;
  }
  tensor.announced = 0;
  std::fill(tensor.who.begin(), tensor.who.end(), 0);
  tensor.offers.clear();
  tensor.rows.clear();
}

std::vector<NameId> Coordinator::forget_old() {
  std::vector<NameId> forgotten;
  if (by_id_.size() <= options_.cache_names) return forgotten;
  // An eighth at a time, so that this is rare.
  std::vector<Tensor*> idle;
  for (const auto& [id, tensor] : by_id_) {
    if (tensor->announced == 0) idle.push_back(tensor);
  }
  const std::size_t surplus =
      std::min(idle.size(), by_id_.size() - options_.cache_names + options_.cache_names / 8);
  std::nth_element(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(surplus), idle.end(),
                   [](const Tensor* a, const Tensor* b) { return a->last_used < b->last_used; });
  idle.resize(surplus);
  for (Tensor* tensor : idle) forgotten.push_back(tensor->id);
  std::sort(forgotten.begin(), forgotten.end());
  for (NameId id : forgotten) {
    const std::string name = by_id_[id]->name;
    by_id_.erase(id);
    tensors_.erase(name);
  }
  return forgotten;
}

std::vector<Coordinator::Missing> Coordinator::missing() const {
  std::vector<Missing> all;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor->announced == 0 || tensor->announced == size_) continue;
    Missing missing{
        name,
        tensor->offers.empty() ? tensor->agreed.kind : tensor->offers.front().signature.kind,
        {}};
    for (int rank = 0; rank < size_; ++rank) {
      if (!(tensor->who[rank / 64] >> (rank % 64) & 1)) missing.ranks.push_back(rank);
    }
    all.push_back(std::move(missing));
  }
  std::sort(all.begin(), all.end(),
            [](const Missing& a, const Missing& b) { return a.name < b.name; });
  return all;
}

}  // namespace hv::runtime
