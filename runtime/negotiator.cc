#include "runtime/negotiator.h"

#include <algorithm>
#include <utility>

#include "rendezvous/codec.h"

namespace hv::runtime {
namespace {

std::vector<std::vector<int>> speakers_of(const Topology& topology) {
  std::vector<std::vector<int>> speakers;
  for (int rank : topology.hosts.front()) speakers.push_back({rank});
  speakers.insert(speakers.end(), topology.hosts.begin() + 1, topology.hosts.end());
  return speakers;
}

base::Result<bool> broken(std::string what) {
  return base::fail(base::Code::kInternal, "negotiation: " + std::move(what));
}

}  // namespace

Negotiator::Negotiator(const Topology& topology, NegotiatorLinks links,
                       Coordinator::Options options)
    : rank_(topology.rank), size_(topology.size), leader_(topology.local_rank == 0) {
  if (rank_ == 0) coordinator_.emplace(size_, speakers_of(topology), options);
  const std::vector<int>& local = topology.local_ranks();
  if (leader_ && rank_ != 0) combiner_.emplace(static_cast<int>(local.size()));
  for (std::size_t i = 0; i < links.locals.size(); ++i) {
    if (links.locals[i]) below_.push_back({std::move(links.locals[i]), local[i], i, false});
  }
  for (std::size_t host = 1; host < links.hosts.size(); ++host) {
    below_.push_back({std::move(links.hosts[host]), topology.hosts[host].front(),
                      topology.hosts.front().size() + host - 1, true});
  }
  if (links.up) above_ = Peer{std::move(links.up), leader_ ? 0 : local.front(), 0, false};
}

void Negotiator::announce(Name& name, Op op) {
  name.waiting = std::move(op);
  name.place = waiting_.size();
  waiting_.push_back(&name);
  add_to_report(name);
}

void Negotiator::add_to_report(Name& name) {
  const Op& op = *name.waiting;
  name.in_full = name.id == 0 || !matches(name.agreed, op);
  if (name.in_full) {
    report_.fresh.push_back({rank_, name.text, signature_of(op), rows_of(op)});
    waiting_by_name_[name.text] = &name;
  } else if (op.kind == OpKind::kAllgather) {
    report_.known.push_back({rank_, name.id, rows_of(op)});
  } else {
    report_.ready.push_back(name.id);
  }
}

void Negotiator::announce_leaving() { report_.left.push_back(rank_); }

base::Result<bool> Negotiator::progress(bool may_decide) {
  auto moved = receive_reports();
  if (!moved) return moved;
  if (!report_.empty()) {
    *moved = true;
    if (auto ok = send_own_report(); !ok) return base::fail(ok.error());
  }
  if (combiner_ && !combiner_->empty()) above_->link->send(encode(combiner_->take()));
  if (coordinator_ && may_decide && coordinator_->has_news()) {
    Decisions decisions = coordinator_->decide();
    if (!below_.empty()) broadcast(encode(decisions));
    if (auto ok = apply(std::move(decisions)); !ok) return base::fail(ok.error());
    *moved = true;
  }
  if (above_) {
    auto received = receive_decisions();
    if (!received) return received;
    *moved = *moved || *received;
  }
  return moved;
}

base::Result<bool> Negotiator::receive_reports() {
  bool moved = false;
  for (Peer& peer : below_) {
    auto link = peer.link->progress();
    while (auto message = peer.link->receive()) {
      moved = true;
      auto report = decode_report(*message);
      if (!report) return base::fail(report.error());
      if (report->heard) peer.needs_us = false;
      if (auto ok = on_report(peer, std::move(*report)); !ok) return base::fail(ok.error());
    }
    if (link) continue;
    if (!is_over()) return base::fail(link.error());
    peer.needs_us = false;  // it is gone
  }
  return moved;
}

base::Result<void> Negotiator::on_report(const Peer& from, Report report) {
  if (coordinator_) return coordinator_->on_report(from.speaker, report);
  combiner_->on_report(from.rank, std::move(report));
  return {};
}

base::Result<void> Negotiator::send_own_report() {
  Report report = std::exchange(report_, {});
  if (coordinator_) return coordinator_->on_report(0, report);
  if (combiner_) {
    combiner_->on_report(rank_, std::move(report));
  } else {
    above_->link->send(encode(report));
  }
  return {};
}

base::Result<bool> Negotiator::receive_decisions() {
  auto link = above_->link->progress();
  bool moved = false;
  while (auto message = above_->link->receive()) {
    moved = true;
    broadcast(*message);
    auto decisions = decode_decisions(*message);
    if (!decisions) return base::fail(decisions.error());
    if (auto ok = apply(std::move(*decisions)); !ok) return base::fail(ok.error());
  }
  if (!link && !is_over()) return base::fail(link.error());
  return moved;
}

void Negotiator::broadcast(base::ByteSpan decisions) {
  for (Peer& peer : below_) peer.link->send(decisions);
}

// Links end as ranks shut down, each as it likes; the last thing said on one was a goodbye.
bool Negotiator::is_over() const {
  return !left_.empty() || (coordinator_ && coordinator_->someone_left());
}

base::Result<void> Negotiator::apply(Decisions decisions) {
  if (combiner_) combiner_->on_decisions(decisions);
  for (BatchDecision& decision : decisions.batches) {
    auto agreed = agree(std::move(decision));
    if (!agreed) return base::fail(agreed.error());
    agreed_.push_back(std::move(*agreed));
  }
  for (NameId id : decisions.forgotten) forget(id);
  if (combiner_ && left_.empty() && !decisions.left.empty()) report_.heard = true;
  left_.insert(left_.end(), decisions.left.begin(), decisions.left.end());
  return {};
}

base::Result<Negotiator::Agreed> Negotiator::agree(BatchDecision decision) {
  Agreed agreed;
  Batch& batch = agreed.batch;
  batch.sequence = decision.sequence;
  if (decision.error.code != 0) agreed.error = rendezvous::from_wire(decision.error);
  batch.ops.reserve(decision.ids.size());
  for (std::size_t i = 0; i < decision.ids.size(); ++i) {
    auto found = waiting_name(decision, i);
    if (!found) return base::fail(found.error());
    Name& name = **found;
    Op op = std::move(*name.waiting);
    remove_waiting(name);
    if (!agreed.error && !decision.names.empty() && !decision.names[i].empty()) {
      name.id = decision.ids[i];
      if (name.id != 0) {
        name.agreed = signature_of(op);
        ids_[name.id] = &name;
      }
    }
    if (i == 0) {
      batch.kind = op.kind;
      batch.dtype = op.input.dtype;
      batch.reduce = op.reduce;
      batch.prescale = op.prescale;
      batch.postscale = op.postscale;
      batch.root = op.root;
    }
    if (op.kind == OpKind::kAllgather && !agreed.error) {
      if (decision.rows.size() < (i + 1) * size_)
        return base::fail(broken("rows are missing").error());
      std::int64_t row = 1;
      for (std::size_t d = 1; d < op.input.shape.size(); ++d) row *= op.input.shape[d];
      auto& counts = batch.counts.emplace_back();
      for (int rank = 0; rank < size_; ++rank) {
        counts.push_back(decision.rows[i * size_ + rank] * row);
      }
    }
    batch.ops.push_back(std::move(op));
  }
  agreed.rows = std::move(decision.rows);
  return agreed;
}

base::Result<Name*> Negotiator::waiting_name(const BatchDecision& decision, std::size_t index) {
  Name* name = nullptr;
  if (!decision.names.empty() && !decision.names[index].empty()) {
    auto found = waiting_by_name_.find(decision.names[index]);
    if (found != waiting_by_name_.end()) name = found->second;
  } else if (auto found = ids_.find(decision.ids[index]); found != ids_.end()) {
    name = found->second;
  }
  if (!name || !name->waiting) {
    return base::fail(broken("batch " + std::to_string(decision.sequence) + " holds a tensor (id " +
                             std::to_string(decision.ids[index]) + ") that rank " +
                             std::to_string(rank_) + " has not announced")
                          .error());
  }
  return name;
}

void Negotiator::remove_waiting(Name& name) {
  if (name.in_full) waiting_by_name_.erase(name.text);
  waiting_.back()->place = name.place;
  std::swap(waiting_[name.place], waiting_.back());
  waiting_.pop_back();
  name.waiting.reset();
}

void Negotiator::forget(NameId id) {
  auto found = ids_.find(id);
  if (found == ids_.end()) return;
  Name& name = *found->second;
  ids_.erase(found);
  name.id = 0;
  // An announcement by id is void now; one in full still stands.
  if (name.waiting && !name.in_full) add_to_report(name);
  forgotten_.push_back(&name);
}

std::optional<Negotiator::Agreed> Negotiator::next() {
  if (agreed_.empty()) return std::nullopt;
  Agreed agreed = std::move(agreed_.front());
  agreed_.pop_front();
  return agreed;
}

std::vector<Op> Negotiator::abandon() {
  std::vector<Op> ops;
  for (Name* name : waiting_) {
    ops.push_back(std::move(*name->waiting));
    name->waiting.reset();
  }
  waiting_.clear();
  waiting_by_name_.clear();
  report_.ready.clear();
  report_.known.clear();
  report_.fresh.clear();
  return ops;
}

bool Negotiator::flushed() const {
  const auto flushed = [](const Peer& peer) { return peer.link->flushed() && !peer.needs_us; };
  return report_.empty() && std::all_of(below_.begin(), below_.end(), flushed) &&
         (!above_ || above_->link->flushed());
}

}  // namespace hv::runtime
