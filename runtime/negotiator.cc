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
    : topology_(topology), rank_(topology.rank), leader_(topology.local_rank == 0) {
  sets_[0] = topology.ranks;
  if (rank_ == 0) coordinator_.emplace(topology.size, speakers_of(topology), options);
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
    waiting_by_name_[name.full()] = &name;
  } else if (rows_per_rank(op.kind, 1) > 0) {
    report_.known.push_back({rank_, name.id, rows_of(op)});
  } else {
    report_.ready.push_back(name.id);
  }
}

void Negotiator::announce_leaving() { report_.left.push_back(rank_); }

base::Result<bool> Negotiator::progress(const std::vector<std::int32_t>& busy) {
  auto moved = receive_reports();
  if (!moved) return moved;
  if (!report_.empty()) {
    *moved = true;
    if (auto ok = send_own_report(); !ok) return base::fail(ok.error());
  }
  if (combiner_ && !combiner_->empty()) above_->link->send(encode(combiner_->take()));
  if (coordinator_ && coordinator_->has_news(busy)) {
    Decisions decisions = coordinator_->decide(busy);
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
    const auto set = sets_.find(decision.set);
    const bool ours =
        set != sets_.end() && std::binary_search(set->second.begin(), set->second.end(), rank_);
    if (!ours) continue;
    auto agreed = agree(std::move(decision));
    if (!agreed) return base::fail(agreed.error());
    if (!agreed->error) apply_control(*agreed);
    agreed_.push_back(std::move(*agreed));
  }
  for (NameId id : decisions.forgotten) forget(id);
  if (combiner_ && left_.empty() && !decisions.left.empty()) report_.heard = true;
  left_.insert(left_.end(), decisions.left.begin(), decisions.left.end());
  return {};
}

// Sets are the same on all ranks from the same decision on.
void Negotiator::apply_control(const Agreed& agreed) {
  if (agreed.batch.ops.empty()) return;
  const Op& op = agreed.batch.ops.front();
  if (op.kind == OpKind::kAddSet) {
    const auto id = static_cast<std::int32_t>(agreed.rows.at(0));
    auto& ranks = sets_[id];
    ranks.assign(op.input.shape.begin(), op.input.shape.end());
    const auto here = [this](int rank) { return topology_.host_of[rank] == topology_.my_host(); };
    const auto count = std::count_if(ranks.begin(), ranks.end(), here);
    if (combiner_) combiner_->add_set(id, static_cast<int>(count));
  } else if (op.kind == OpKind::kRemoveSet) {
    sets_.erase(op.root);
    if (combiner_) combiner_->remove_set(op.root);
  } else if (op.kind == OpKind::kJoin && combiner_) {
    combiner_->end_join(op.set);
  }
}

base::Result<Negotiator::Agreed> Negotiator::agree(BatchDecision decision) {
  Agreed agreed;
  Batch& batch = agreed.batch;
  batch.sequence = decision.sequence;
  batch.set = decision.set;
  if (decision.error.code != 0) agreed.error = rendezvous::from_wire(decision.error);
  batch.ops.reserve(decision.ids.size());
  const std::vector<int>& members = sets_.at(batch.set);
  const std::size_t ranks = members.size();
  agreed.ranks = static_cast<int>(ranks);
  agreed.index =
      static_cast<int>(std::lower_bound(members.begin(), members.end(), rank_) - members.begin());
  for (std::size_t i = 0; i < decision.ids.size(); ++i) {
    Name* name = waiting_name(decision, i);
    if (!name && agreed.error) continue;  // this rank has joined
    if (!name && decision.signatures.empty()) {
      return base::fail(broken("batch " + std::to_string(batch.sequence) + " holds a tensor (id " +
                               std::to_string(decision.ids[i]) + ") that rank " +
                               std::to_string(rank_) + " has not announced")
                            .error());
    }
    Op op = name ? take_waiting(*name, decision, i) : stand_in(decision, i);
    if (const std::size_t each = rows_per_rank(op.kind, ranks); each > 0 && !agreed.error) {
      if (decision.rows.size() != decision.ids.size() * ranks * each) {
        return base::fail(broken("rows are missing").error());
      }
      batch.counts.push_back(counts_of(op, decision, i));
    }
    batch.ops.push_back(std::move(op));
  }
  if (!batch.ops.empty()) {
    const Op& op = batch.ops.front();
    batch.kind = op.kind;
    batch.dtype = op.input.dtype;
    batch.reduce = op.reduce;
    batch.prescale = op.prescale;
    batch.postscale = op.postscale;
    batch.root = op.root;
  }
  agreed.rows = std::move(decision.rows);
  return agreed;
}

// By name where it was announced so, for an id may be new here and a name may have another id's
// parameters.
Name* Negotiator::waiting_name(const BatchDecision& decision, std::size_t index) const {
  if (!decision.names.empty() && !decision.names[index].empty()) {
    const auto found = waiting_by_name_.find({decision.set, decision.names[index]});
    if (found != waiting_by_name_.end()) return found->second;
  }
  const auto found = ids_.find(decision.ids[index]);
  return found != ids_.end() && found->second->waiting ? found->second : nullptr;
}

Op Negotiator::take_waiting(Name& name, const BatchDecision& decision, std::size_t index) {
  Op op = std::move(*name.waiting);
  remove_waiting(name);
  const bool in_full = !decision.names.empty() && !decision.names[index].empty();
  if (in_full && decision.error.code == 0) {
    name.id = decision.ids[index];
    if (name.id != 0) {
      name.agreed = signature_of(op);
      ids_[name.id] = &name;
    }
  }
  return op;
}

// For an operation that the others run without this rank, which has joined.
Op Negotiator::stand_in(const BatchDecision& decision, std::size_t index) {
  const Signature& s = decision.signatures[index];
  if (auto known = ids_.find(decision.ids[index]); known != ids_.end()) known->second->agreed = s;
  Op op;
  op.kind = s.kind;
  op.set = s.set;
  op.name = decision.names.empty() ? std::string() : decision.names[index];
  op.input = TensorView{nullptr, s.dtype, s.shape, s.device};
  op.output = op.input;
  op.reduce = s.reduce;
  op.prescale = s.prescale;
  op.postscale = s.postscale;
  op.root = s.root;
  return op;
}

std::vector<std::int64_t> Negotiator::counts_of(const Op& op, const BatchDecision& decision,
                                                std::size_t index) const {
  const std::size_t ranks = sets_.at(decision.set).size();
  const std::size_t each = ranks * rows_per_rank(op.kind, ranks);
  std::int64_t row = 1;
  for (std::size_t d = 1; d < op.input.shape.size(); ++d) row *= op.input.shape[d];
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < each; ++i) {
    counts.push_back(decision.rows[index * each + i] * row);
  }
  return counts;
}

void Negotiator::remove_waiting(Name& name) {
  if (name.in_full) waiting_by_name_.erase(name.full());
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
