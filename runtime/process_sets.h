// ProcessSets: the process sets that this rank knows.
//
// Thread: any. Owner: the world. Fails with kInvalidArgument on a set that cannot be.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "runtime/members.h"

namespace hv::runtime {

class ProcessSets {
 public:
  using Set = std::shared_ptr<const Members>;
  ProcessSets(int rank, int size);

  // Ascending; kInvalidArgument if they cannot be a set of their own.
  base::Result<std::vector<int>> check(std::vector<int> ranks) const;
  Set add(std::int32_t id, std::vector<int> ranks);
  void remove(std::int32_t id);
  Set find(std::int32_t id) const;  // null: there is none
  Set all_ranks() const { return find(0); }
  std::vector<Set> list() const;  // by id

 private:
  const int rank_, size_;
  mutable std::mutex mutex_;
  std::vector<Set> sets_;
};

// "0-3;4,6,8": sets of ranks and ranges of ranks. kUsage names the part that is none.
base::Result<std::vector<std::vector<int>>> parse_process_sets(std::string_view text);

}  // namespace hv::runtime
