// Which rows of a data set a rank trains on.
#pragma once

#include <cstdint>
#include <vector>

#include "hv/export.h"

namespace hv {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
};

// Deals the rows of a data set out to the ranks: every row to exactly one rank in each epoch, no
// row twice, no padding. Row counts of any two ranks differ by at most one, over the epoch and
// within each global batch. The order of rows, and so the k-th global batch as a set, depends on
// seed and epoch only, never on the number of ranks. A plain value: no communication, not thread
// safe; wrong arguments throw kInvalidArgument.
class HV_API DistributedSampler {
 public:
  DistributedSampler(std::int64_t rows, int rank, int size, const SamplerOptions& options = {});

  // Draws the order of this epoch. Epoch 0 is drawn by the constructor.
  void set_epoch(std::int64_t epoch);

  // This rank's rows of the epoch, in the order to train on them.
  std::vector<std::int64_t> indices() const;

  // The epoch as global batches of `global_batch` rows over all ranks; the last may be smaller.
  std::int64_t batches(std::int64_t global_batch) const;
  // This rank's share of batch k; may be empty.
  std::vector<std::int64_t> batch(std::int64_t k, std::int64_t global_batch) const;

 private:
  std::vector<std::int64_t> every_size_th(std::int64_t from, std::int64_t to) const;

  std::vector<std::int64_t> order_;
  std::int64_t rank_;
  std::int64_t size_;
  SamplerOptions options_;
};

}  // namespace hv
