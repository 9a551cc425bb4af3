// The selector: which algorithm runs a collective, and in which pieces. Pure, and equal on all
// ranks of a job, because it looks only at what all ranks know. All thresholds are rows of one
// table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "runtime/op.h"

namespace hv::runtime {

// Inside a host. kFlat: everyone reduces everything (one host only). kSlices: rank i reduces slice
// i of every chunk, for all. kInPlace: the same without copies, in memory that the ranks share (if
// all tensors turn out to lie there, at the same place).
enum class LocalAlgorithm : std::uint8_t { kFlat, kSlices, kInPlace };
// Between the hosts, for the slice of one rank and its counterparts.
enum class CrossAlgorithm : std::uint8_t {
  kDirect,    // everyone reduces its share, got from everyone: least bytes, 2 steps
  kDoubling,  // whole values to a partner, twice as far each step: fewest steps
  kHalving,   // halves to a partner, then back: least bytes, log steps; powers of two only
  kTree,      // up to host 0 and down again: fewest messages
  kRing,      // neighbours only; adds in another order, so never by default
  kByRank,    // kDirect with every rank's input instead of each host's sum: most bytes
};
std::string_view to_string(LocalAlgorithm algorithm);
std::string_view to_string(CrossAlgorithm algorithm);

struct Sizes {  // of the job
  int ranks = 1, hosts = 1;
  int smallest_host = 1, largest_host = 1;  // ranks
};

// What results may depend on, besides the inputs. kOn: on which ranks share a host. kPlacement: on
// nothing. kOff: on the algorithm too.
enum class Determinism : std::uint8_t { kOff, kOn, kPlacement };

// What the user or a measurement may set; all ranks must agree.
struct Tuning {
  std::size_t slot_bytes = 1u << 20;  // of a shared slot: the largest chunk
  int slots = 4;                      // chunks in flight
  Determinism determinism = Determinism::kOn;
  bool one_owner = false;               // between hosts, one rank of each host moves everything
  std::optional<LocalAlgorithm> local;  // where they apply, instead of the table's choice
  std::optional<CrossAlgorithm> cross;
};
// Sets algorithms by name, comma separated: "slices,tree". kUsage names what is known.
base::Result<Tuning> with_algorithms(Tuning tuning, std::string_view names);

struct Plan {
  LocalAlgorithm local = LocalAlgorithm::kSlices;
  CrossAlgorithm cross = CrossAlgorithm::kDirect;
  int owners = 1;               // local ranks, from 0 on, that own a slice
  std::size_t chunk_bytes = 0;  // a multiple of 64
};
Plan choose_plan(OpKind kind, std::size_t bytes, bool may_be_in_place, const Sizes& sizes,
                 const Tuning& tuning);

// "shm-flat", "shm-slices", "tcp-direct", …
std::string name_of(const Plan& plan, const Sizes& sizes);

}  // namespace hv::runtime
