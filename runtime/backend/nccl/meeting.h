// How the ranks of a set find out whether they can share a communicator, before there is one: each
// lays a card into the store, the set's first rank compares them and answers with what all need.
//
// Thread: whoever calls meet(), which waits. Failure: the same text on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/fields.h"
#include "rendezvous/store.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace hv::runtime::nccl {

struct Card {
  std::int32_t rank = 0;
  std::string who;   // "rank 3 on h2"
  std::string host;  // equal where two ranks share a machine
  std::int32_t local_rank = 0;
  std::int32_t device = 0;
  std::string name, uuid;
  std::string mask;  // CUDA_VISIBLE_DEVICES
  std::int32_t driver = 0, nccl = 0;
  std::string compression;
  std::uint64_t buffer_bytes = 0;
  bool registers = false;  // its buffer can be registered
  bool scalable = false;   // it can meet at several ids
  bool shares = false;     // NCCL lets it share its device
  std::string id;          // where the others can meet; "": not here
  HV_FIELDS(s.rank, s.who, s.host, s.local_rank, s.device, s.name, s.uuid, s.mask, s.driver, s.nccl,
            s.compression, s.buffer_bytes, s.registers, s.scalable, s.shares, s.id)
};

struct Verdict {
  rendezvous::WireError error;   // code not 0: they can not
  std::vector<std::string> ids;  // more than one only where all ranks are scalable
  bool registers = false;
  HV_FIELDS(s.error, s.ids, s.registers)
};

// Pure. `cards`: of all ranks of the set, in order.
Verdict judge(const std::vector<Card>& cards, int ranks_per_id);
// Whether a rank lays an id of its own, by NCCL's rule for roots: rank 0 always does.
bool owns_id(int index, int ranks, int ranks_per_id);

struct Invitation {
  rendezvous::Store* store = nullptr;  // null: the world is over
  std::string scope;                   // begins the keys; once per set
  std::vector<std::string> who;        // of the set
  int index = 0;                       // this rank's
  int ranks_per_id = 256;
};
base::Result<Verdict> meet(const Invitation& invitation, const Card& own, base::Deadline deadline);

}  // namespace hv::runtime::nccl
