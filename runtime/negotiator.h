// Negotiator: this rank's side of agreeing on batches. Announces operations, receives decisions;
// on a host's leader (its lowest rank) it also speaks for the others, and on rank 0 it holds the
// coordinator.
//
// Thread: the baton holder's. Owner: the engine. Fails when a link does or when peers talk
// nonsense; errors of a link to a rank that has left are no failure.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/backend/host_backend.h"
#include "runtime/combiner.h"
#include "runtime/coordinator.h"
#include "runtime/link.h"
#include "runtime/names.h"

namespace hv::runtime {

struct NegotiatorLinks {
  std::vector<std::unique_ptr<Link>> locals;  // a leader's, by local rank; its own is null
  std::vector<std::unique_ptr<Link>> hosts;   // rank 0's, by host, to the leaders; its own is null
  std::unique_ptr<Link> up;                   // to this rank's leader; a leader's to rank 0
};
base::Result<NegotiatorLinks> make_negotiator_links(const DataPlane& plane,
                                                    base::Deadline deadline);

class Negotiator {
 public:
  Negotiator(const Topology& topology, NegotiatorLinks links, Coordinator::Options options);

  void announce(Name& name, Op op);
  void announce_leaving();
  // Moves messages; rank 0 decides about what is ready, other than in the sets that are busy. True
  // if anything has moved.
  base::Result<bool> progress(const std::vector<std::int32_t>& busy);

  struct Agreed {
    // With this rank's operations. Where it has joined, some have no handle and no tensors, only
    // shapes.
    Batch batch;
    std::vector<std::int64_t> rows;    // see BatchDecision
    int ranks = 1, index = 0;          // of the set; this one's place among them
    std::optional<base::Error> error;  // they end with it instead
  };
  std::optional<Agreed> next();

  // Ranks that have shut down, the first first. Nothing is agreed on any more once there is one.
  const std::vector<int>& left() const { return left_; }
  // Takes back everything announced and not decided.
  std::vector<Op> abandon();
  // Names that have lost their ids since the last call.
  std::vector<Name*> take_forgotten() { return std::exchange(forgotten_, {}); }
  // All that was said is on its way, and rank 0's goodbye has been heard on every host.
  bool flushed() const;

 private:
  struct Peer {
    std::unique_ptr<Link> link;
    int rank = 0;
    std::size_t speaker = 0;  // rank 0's: as which its reports count
    bool needs_us = false;    // rank 0's: a leader that has not heard that somebody has left
  };
  base::Result<bool> receive_reports();
  base::Result<void> on_report(const Peer& from, Report report);
  base::Result<void> send_own_report();
  base::Result<bool> receive_decisions();
  base::Result<void> apply(Decisions decisions);
  base::Result<Agreed> agree(BatchDecision decision);
  Name* waiting_name(const BatchDecision& decision, std::size_t index) const;
  Op take_waiting(Name& name, const BatchDecision& decision, std::size_t index);
  Op stand_in(const BatchDecision& decision, std::size_t index);
  std::vector<std::int64_t> counts_of(const Op& op, const BatchDecision& decision,
                                      std::size_t index) const;
  void apply_control(const Agreed& agreed);
  void forget(NameId id);
  void add_to_report(Name& name);
  void remove_waiting(Name& name);
  void broadcast(base::ByteSpan decisions);
  bool is_over() const;

  const Topology topology_;
  const int rank_;
  const bool leader_;
  std::vector<Peer> below_;  // whose reports come here
  std::optional<Peer> above_;
  std::optional<Coordinator> coordinator_;
  std::optional<Combiner> combiner_;
  Report report_;  // this rank's, not yet sent
  std::vector<Name*> waiting_;
  std::map<std::int32_t, std::vector<int>> sets_;                        // ranks of each
  std::unordered_map<FullName, Name*, FullName::Hash> waiting_by_name_;  // announced in full
  std::unordered_map<NameId, Name*> ids_;
  std::deque<Agreed> agreed_;
  std::vector<Name*> forgotten_;
  std::vector<int> left_;
};

}  // namespace hv::runtime
