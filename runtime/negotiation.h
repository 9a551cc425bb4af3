// What negotiators tell each other: upwards what ranks have announced, downwards what the
// coordinator has decided. Values and their encoding; no I/O.
//
// A name that all ranks have agreed on before has an id, the same everywhere, and travels as a
// number in a set. Ids are given by decisions and never used twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"
#include "runtime/op.h"

namespace hv::runtime {

using NameId = std::uint32_t;  // 0: none

// What all ranks of a set must submit alike under one name. Allgather, alltoall: dimension 0 of the
// shape is -1, each rank's own numbers of rows travel beside it.
struct Signature {
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  double prescale = 1.0, postscale = 1.0;
  std::int32_t root = 0;
  std::int32_t device = -1;  // -1: host memory, 0: a GPU; each rank has an ordinal of its own
  std::int32_t set = 0;
  std::uint32_t group = 0;
  Shape shape;
  template <class Self, class Visitor>
  static void visit(Self& s, Visitor& v) {
    v(s.kind, s.dtype, s.reduce, s.prescale, s.postscale, s.root, s.device, s.set, s.group,
      s.shape);
  }
  bool operator==(const Signature&) const = default;
};
Signature signature_of(const Op& op);
bool matches(const Signature& signature, const Op& op);
std::vector<std::int64_t> rows_of(const Op& op);  // see rows_per_rank
std::size_t result_bytes(const Signature& signature, std::int64_t all_rows);
// Joined ranks take part in it without having submitted it.
bool goes_on_without(const Signature& signature);

struct Report {
  struct Known {  // by one rank: with rows, or an id that only part of a host announced
    std::int32_t rank = 0;
    NameId id = 0;
    std::vector<std::int64_t> rows = {};
    template <class Self, class Visitor>
    static void visit(Self& s, Visitor& v) {
      v(s.rank, s.id, s.rows);
    }
  };
  struct Fresh {  // a name without id, or with other parameters than those agreed on
    std::int32_t rank = 0;
    std::string name;
    Signature signature;
    std::vector<std::int64_t> rows = {};
    template <class Self, class Visitor>
    static void visit(Self& s, Visitor& v) {
      v(s.rank, s.name, s.signature, s.rows);
    }
  };
  std::vector<NameId> ready;  // by every rank of its set that the sender speaks for
  std::vector<Known> known;
  std::vector<Fresh> fresh;
  std::vector<std::int32_t> left;  // ranks that shut down; nothing of theirs follows
  bool heard = false;  // a leader has heard that somebody has left: it needs nothing more
  bool empty() const {
    return ready.empty() && known.empty() && fresh.empty() && left.empty() && !heard;
  }
  void clear();
};

struct BatchDecision {
  std::uint64_t sequence = 0;
  std::int32_t set = 0;     // whose ranks run it
  std::vector<NameId> ids;  // in order of execution
  // Empty, or one per id: the name where its id is new or its parameters have changed, or where
  // there is no id; else "".
  std::vector<std::string> names;
  // Per op, per rank: see rows_per_rank. Join: who was last; kAddSet: the new set.
  std::vector<std::int64_t> rows;
  std::vector<Signature> signatures;  // per op, for ranks that have joined; else empty
  rendezvous::WireError error;        // code not 0: the operations end with it
};

struct Decisions {
  std::vector<BatchDecision> batches;
  std::vector<NameId> forgotten;   // announce these by name again, pending ones at once
  std::vector<std::int32_t> left;  // after the batches above nothing more is decided with them
  bool empty() const { return batches.empty() && forgotten.empty() && left.empty(); }
};

base::Bytes encode(const Report& report);
base::Bytes encode(const Decisions& decisions);
base::Result<Report> decode_report(base::ByteSpan bytes);
base::Result<Decisions> decode_decisions(base::ByteSpan bytes);

}  // namespace hv::runtime
