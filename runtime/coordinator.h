// Coordinator: rank 0's brain. Reports go in, decisions come out: what is ready, what runs
// together, what mismatches, who has joined, who has left, who is missing, for all process sets.
//
// Thread: the baton holder's. Pure: no sockets, threads or clock. Fails with kProtocol on reports
// that no correct rank sends. A mismatch is a decision, not a failure: the world goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/result.h"
#include "runtime/fusion.h"
#include "runtime/names.h"
#include "runtime/negotiation.h"

namespace hv::runtime {

class Coordinator {
 public:
  struct Options {
    std::size_t fusion_bytes = std::size_t{128} << 20;
    std::size_t cache_names = 16384;
  };
  // A speaker is who hands in reports: the one rank, or all ranks of a host that it speaks for.
  Coordinator(int size, const std::vector<std::vector<int>>& speakers, Options options);

  base::Result<void> on_report(std::size_t speaker, const Report& report);
  // Something to decide, other than for the sets that are busy.
  bool has_news(const std::vector<std::int32_t>& busy = {}) const;
  bool someone_left() const { return someone_left_; }
  // Everything that is ready now, in batches; ranks that have left come last. What is ready in a
  // busy set waits.
  Decisions decide(const std::vector<std::int32_t>& busy = {});

  struct Missing {
    std::string name;
    OpKind kind;
    std::vector<int> ranks;  // that have not announced it
    std::int32_t set = 0;
  };
  std::vector<Missing> missing() const;  // for stall reports; sorted by name

 private:
  using Mask = std::vector<std::uint64_t>;
  struct Set {
    std::vector<int> ranks;
    Mask mask;
    Mask joined;
    int joined_count = 0;
    int last_joined = 0;
    int size() const { return static_cast<int>(ranks.size()); }
  };
  struct Offer {  // what these ranks submitted, by name
    Signature signature;
    std::vector<int> ranks;
  };
  struct Tensor {
    std::string name;
    Set* set = nullptr;
    std::int32_t set_id = 0;
    NameId id = 0;
    Signature agreed;  // valid with an id
    std::uint64_t last_used = 0;
    // The announcement that is going on.
    bool ready = false;
    bool in_full = false;  // by somebody, so that somebody may not know the id
    int announced = 0;
    std::vector<std::uint64_t> who;  // a bit per rank
    std::vector<Offer> offers;       // ranks not in one announced what `agreed` says
    std::vector<std::int64_t> rows;  // per rank of the set: see rows_per_rank
    FullName full() const { return {set_id, name}; }
  };
  struct Speaker {
    std::vector<int> ranks;
    Mask mask;
  };

  base::Result<void> announce(Tensor& tensor, const Mask& mask);
  base::Result<void> announce_one(Tensor& tensor, int rank, OpKind kind,
                                  const std::vector<std::int64_t>& rows);
  base::Result<void> on_fresh(const Report::Fresh& fresh);
  void on_join(Set& set, int rank);
  void on_left(int rank);
  Tensor* find(NameId id);
  Tensor& by_name(std::int32_t set, std::string_view name);
  void add_set(std::int32_t id, const std::vector<int>& ranks);
  bool valid(int rank) const { return rank >= 0 && rank < size_; }
  Mask mask_of(const std::vector<int>& ranks) const;
  bool is_complete(const Tensor& tensor) const;
  std::vector<int> ranks_without(const Tensor& tensor) const;  // that have not announced it
  // Why it can not run although all agree; empty: it can.
  std::string objection(const Tensor& tensor, const Signature& offered) const;
  std::string mismatch(const Tensor& tensor) const;  // empty: all agree
  void add_batch(Decisions& out, const std::vector<Tensor*>& tensors);
  BatchDecision refuse(Tensor& tensor, base::Code code, std::string text);
  void settle_control(Decisions& out, Tensor& tensor);
  void remove_set(Decisions& out, std::int32_t id);
  void settle(Tensor& tensor);  // one announcement is over
  std::vector<NameId> forget_old();

  const int size_;
  const Options options_;
  std::vector<Speaker> speakers_;
  std::vector<Mask> single_;  // per rank
  std::map<std::int32_t, Set> sets_;
  std::unordered_map<FullName, std::unique_ptr<Tensor>, FullName::Hash> tensors_;
  std::unordered_map<NameId, Tensor*> by_id_;
  std::vector<Tensor*> ready_;
  std::vector<std::int32_t> new_left_;
  bool someone_left_ = false;
  NameId next_id_ = 1;
  std::uint64_t next_sequence_ = 1;
  std::int32_t next_set_ = 1;
};

}  // namespace hv::runtime
