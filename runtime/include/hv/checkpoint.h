// Saving where training stands, and going on from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hv/hv.h"
#include "hv/parameters.h"

namespace hv {

// What is saved beside the tensors.
struct TrainingState {
  std::int64_t epoch = 0;  // finished epochs
  std::int64_t step = 0;   // finished steps
  std::map<std::string, std::string> notes =
      {};  // anything else, for example seed and global batch
};

// The checkpoints of one training in one directory, "checkpoint-<number>.hvc", the highest number
// the newest; the last `keep` stay. Rank 0 alone touches the directory: a file is written aside,
// checksummed, flushed to disk and renamed, so that a crash at any time leaves the previous ones
// and never a half one under a checkpoint's name. All methods are collective and either succeed
// or throw the same error on every rank.
class HV_API Checkpoints {
 public:
  Checkpoints(World world, std::filesystem::path directory, int keep = 2);

  // Returns when the file is safe on disk. If writing fails (kSystem), the previous ones are kept.
  void save(const std::vector<NamedTensor>& tensors, const TrainingState& state);

  // Loads the newest checkpoint into the tensors of all ranks; nothing there: nullopt. kMismatch if
  // names, shapes or types are not exactly those given; kProtocol if the file is damaged. Either
  // way the tensors are unchanged.
  std::optional<TrainingState> restore(const std::vector<NamedTensor>& tensors);

 private:
  World world_;
  std::filesystem::path directory_;
  int keep_;
};

}  // namespace hv
