// What the coordinator makes of what is ready.
#include <algorithm>

#include "rendezvous/base/text.h"
#include "rendezvous/codec.h"
#include "runtime/coordinator.h"
#include "runtime/mismatch.h"

namespace hv::runtime {

Decisions Coordinator::decide(const std::vector<std::int32_t>& busy) {
  Decisions out;
  std::vector<Tensor*> ready;
  const auto waits = [&](const Tensor* tensor) {
    return std::find(busy.begin(), busy.end(), tensor->set_id) != busy.end();
  };
  std::remove_copy_if(ready_.begin(), ready_.end(), std::back_inserter(ready), waits);
  std::erase_if(ready_, [&](const Tensor* tensor) { return !waits(tensor); });
  // By id, that is in the order of first use; new names follow as they came, and so do joins.
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Tensor* a, const Tensor* b) { return a->id - 1 < b->id - 1; });
  std::vector<Tensor*> good, control;
  std::vector<FuseItem> items;
  for (Tensor* tensor : ready) {
    if (std::string text = mismatch(*tensor); !text.empty()) {
      out.batches.push_back(refuse(*tensor, base::Code::kMismatch, std::move(text)));
      settle(*tensor);
      continue;
    }
    const Signature& offered =
        tensor->offers.empty() ? tensor->agreed : tensor->offers.front().signature;
    if (std::string text = objection(*tensor, offered); !text.empty()) {
      out.batches.push_back(refuse(*tensor, base::Code::kInvalidArgument, std::move(text)));
      settle(*tensor);
      continue;
    }
    tensor->agreed = offered;
    const OpKind kind = offered.kind;
    if (!has_data(kind) && kind != OpKind::kBarrier) {
      control.push_back(tensor);
      continue;
    }
    std::int64_t all_rows = 0;
    for (std::int64_t rows : tensor->rows) all_rows += rows;
    good.push_back(tensor);
    items.push_back({&tensor->agreed, result_bytes(tensor->agreed, all_rows)});
  }
  for (const auto& group : fuse(items, options_.fusion_bytes)) {
    std::vector<Tensor*> tensors;
    for (std::size_t i : group) tensors.push_back(good[i]);
    add_batch(out, tensors);
  }
  for (Tensor* tensor : good) settle(*tensor);
  for (Tensor* tensor : control) settle_control(out, *tensor);
  const auto old = forget_old();
  out.forgotten.insert(out.forgotten.end(), old.begin(), old.end());
  out.left = std::exchange(new_left_, {});
  return out;
}

void Coordinator::add_batch(Decisions& out, const std::vector<Tensor*>& tensors) {
  BatchDecision& batch = out.batches.emplace_back();
  batch.sequence = next_sequence_++;
  batch.set = tensors.front()->set_id;
  for (Tensor* tensor : tensors) {
    const bool can_have_id =
        has_data(tensor->agreed.kind) || tensor->agreed.kind == OpKind::kBarrier;
    if (tensor->id == 0 && options_.cache_names > 0 && can_have_id) {
      tensor->id = next_id_++;
      by_id_[tensor->id] = tensor;
    }
    tensor->last_used = batch.sequence;
    if (tensor->in_full) {
      batch.names.resize(tensors.size());
      batch.names[batch.ids.size()] = tensor->name;
    }
    batch.ids.push_back(tensor->id);
    batch.rows.insert(batch.rows.end(), tensor->rows.begin(), tensor->rows.end());
    if (tensor->set->joined_count > 0) batch.signatures.push_back(tensor->agreed);
  }
}

std::string Coordinator::mismatch(const Tensor& tensor) const {
  std::size_t offered = 0;
  std::vector<Side> sides;
  for (const Offer& offer : tensor.offers) {
    offered += offer.ranks.size();
    sides.push_back({&offer.signature, offer.ranks});
  }
  if (offered < static_cast<std::size_t>(tensor.announced)) {
    // The others announced what was agreed before.
    std::vector<int> others;
    for (int rank : tensor.set->ranks) {
      const bool is_offered =
          std::any_of(tensor.offers.begin(), tensor.offers.end(), [rank](const Offer& offer) {
            return std::find(offer.ranks.begin(), offer.ranks.end(), rank) != offer.ranks.end();
          });
      const bool announced = tensor.who[rank / 64] >> (rank % 64) & 1;
      if (announced && !is_offered) others.push_back(rank);
    }
    sides.push_back({&tensor.agreed, others});
  }
  return sides.size() < 2 ? std::string() : describe_mismatch(tensor.name, std::move(sides));
}

std::string Coordinator::objection(const Tensor& tensor, const Signature& s) const {
  const std::string what = std::string(to_string(s.kind)) + " '" + tensor.name + "': ";
  if (s.kind == OpKind::kAddSet) {
    for (const auto& [id, set] : sets_) {
      if (std::equal(set.ranks.begin(), set.ranks.end(), s.shape.begin(), s.shape.end())) {
        return what + "process set " + std::to_string(id) + " has the same ranks " +
               hv::to_string(s.shape) + "; use that one, or remove it first";
      }
    }
  }
  if (s.kind == OpKind::kRemoveSet && (s.root == 0 || !sets_.contains(s.root))) {
    return what + "there is no process set " + std::to_string(s.root) + " that could be removed";
  }
  if (tensor.announced == tensor.set->size() || goes_on_without(s)) return {};
  const std::vector<int> joined = ranks_without(tensor);
  return what + (joined.size() == 1 ? "rank " : "ranks ") + base::ranges(joined) +
         (joined.size() == 1 ? " has" : " have") +
         " joined, and only allreduces (min, max and product without a prescale) and barriers go "
         "on without a rank; use them, or join on every rank first";
}

BatchDecision Coordinator::refuse(Tensor& tensor, base::Code code, std::string text) {
  BatchDecision batch;
  batch.sequence = next_sequence_++;
  batch.set = tensor.set_id;
  batch.ids = {tensor.id};
  if (tensor.id == 0 || tensor.in_full) batch.names = {tensor.name};
  batch.error = rendezvous::to_wire(base::Error{code, std::move(text), "coordinator", 0});
  return batch;
}

// What is done by being agreed on.
void Coordinator::settle_control(Decisions& out, Tensor& tensor) {
  const Signature s = tensor.agreed;
  Set& set = *tensor.set;
  tensor.rows.clear();
  switch (s.kind) {
    case OpKind::kJoin:
      tensor.rows = {set.last_joined};
      set.joined.assign(set.joined.size(), 0);
      set.joined_count = 0;
      break;
    case OpKind::kAddSet:
      tensor.rows = {next_set_};
      add_set(next_set_++, std::vector<int>(s.shape.begin(), s.shape.end()));
      break;
    case OpKind::kRemoveSet:
      remove_set(out, s.root);
      break;
    case OpKind::kAllreduce:
    case OpKind::kBroadcast:
    case OpKind::kAllgather:
    case OpKind::kBarrier:
    case OpKind::kReducescatter:
    case OpKind::kAlltoall:
      break;
  }
  add_batch(out, {&tensor});
  settle(tensor);
}

// All ranks have asked for it, so all that was announced in the set before has arrived here.
void Coordinator::remove_set(Decisions& out, std::int32_t id) {
  std::vector<Tensor*> of_set;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor->set_id == id) of_set.push_back(tensor.get());
  }
  std::sort(of_set.begin(), of_set.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  std::erase_if(ready_, [id](const Tensor* tensor) { return tensor->set_id == id; });
  for (Tensor* tensor : of_set) {
    if (tensor->announced > 0) {
      out.batches.push_back(refuse(*tensor, base::Code::kAborted,
                                   "'" + tensor->name + "' was pending in process set " +
                                       std::to_string(id) + " when that was removed"));
    }
    if (tensor->id != 0) {
      out.forgotten.push_back(tensor->id);
      by_id_.erase(tensor->id);
    }
    tensors_.erase(tensors_.find(tensor->full()));
  }
  sets_.erase(id);
}

void Coordinator::settle(Tensor& tensor) {
  if (tensor.id == 0) {
    tensors_.erase(tensors_.find(tensor.full()));
    return;
  }
  tensor.ready = tensor.in_full = false;
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
    auto found = by_id_.find(id);
    const Tensor& tensor = *found->second;
    by_id_.erase(found);
    tensors_.erase(tensors_.find(tensor.full()));
  }
  return forgotten;
}

}  // namespace hv::runtime
