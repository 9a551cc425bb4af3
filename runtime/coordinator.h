// Coordinator: rank 0's brain. Reports go in, decisions come out: what is ready, what runs
// together, what mismatches, who has left, who is missing.
//
// Thread: the baton holder's. Pure: no sockets, threads or clock. Fails with kProtocol on reports
// that no correct rank sends. A mismatch is a decision, not a failure: the world goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/result.h"
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
  bool has_news() const { return !ready_.empty() || !new_left_.empty(); }
  bool someone_left() const { return someone_left_; }
  // Everything that is ready now, in batches; ranks that have left come last.
  Decisions decide();

  struct Missing {
    std::string name;
    OpKind kind;
    std::vector<int> ranks;  // that have not announced it
  };
  std::vector<Missing> missing() const;  // for stall reports; sorted by name

 private:
  struct Offer {  // what these ranks submitted, by name
    Signature signature;
    std::vector<int> ranks;
  };
  struct Tensor {
    std::string name;
    NameId id = 0;
    Signature agreed;  // valid with an id
    std::uint64_t last_used = 0;
    // The announcement that is going on.
    int announced = 0;
    std::vector<std::uint64_t> who;  // a bit per rank
    std::vector<Offer> offers;       // ranks not in one announced what `agreed` says
    std::vector<std::int64_t> rows;  // allgather: per rank
  };
  using Mask = std::vector<std::uint64_t>;
  struct Speaker {
    std::vector<int> ranks;
    Mask mask;
  };

  base::Result<void> announce(Tensor& tensor, const Mask& mask, int ranks);
  base::Result<void> announce_one(Tensor& tensor, int rank, std::int64_t rows);
  base::Result<void> on_fresh(const Report::Fresh& fresh);
  void on_left(int rank);
  Tensor* find(NameId id);
  Tensor& by_name(std::string_view name);
  bool valid(int rank) const { return rank >= 0 && rank < size_; }
  Mask mask_of(const std::vector<int>& ranks) const;
  std::string mismatch(const Tensor& tensor) const;  // empty: all agree
  BatchDecision refuse(Tensor& tensor, std::string text);
  void settle(Tensor& tensor);  // one announcement is over
  std::vector<NameId> forget_old();

  const int size_;
  const Options options_;
  std::vector<Speaker> speakers_;
  std::vector<Mask> single_;  // per rank
  std::unordered_map<std::string, std::unique_ptr<Tensor>> tensors_;
  std::unordered_map<NameId, Tensor*> by_id_;
  std::vector<Tensor*> ready_;
  std::vector<std::int32_t> new_left_;
  bool someone_left_ = false;
  NameId next_id_ = 1;
  std::uint64_t next_sequence_ = 1;
};

}  // namespace hv::runtime
