// What goes into the buffers and what must come out, so that results can be compared bit for bit:
// small whole numbers whose sums, averages and products every type holds exactly, in any order of
// summation. They repeat with a prime period, so that no slice or chunk boundary falls on the same
// value twice, and are cut from the period at another place for each call and tensor, so that a
// stale or misplaced result shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hv/types.h"

namespace hv::bench {

constexpr std::int64_t kPeriod = 61;

// Purpose: kPeriod values of one type, to fill and compare buffers with memory speed. Thread: any,
// const after construction. Owns its copy. Cannot fail.
class Pattern {
 public:
  // value(j) for 0 <= j < kPeriod must be exact in `dtype`.
  Pattern(DType dtype, const std::function<double(std::int64_t j)>& value);

  // Element i becomes value((i + phase) mod kPeriod).
  void fill(std::span<std::byte> buffer, std::int64_t phase) const;
  std::int64_t count_wrong(std::span<const std::byte> buffer, std::int64_t phase) const;

 private:
  std::span<const std::byte> tile(std::int64_t phase) const;

  std::size_t element_;
  std::size_t tile_bytes_;  // a multiple of the period
  std::vector<std::byte> values_;
};

// What this rank gives to a reduction, and what the reduction must make of all ranks' values.
Pattern input_pattern(DType dtype, ReduceOp reduce, int rank, int size);
Pattern expected_pattern(DType dtype, ReduceOp reduce, int size);

std::vector<DType> checkable_types();
std::vector<ReduceOp> checkable_reductions();

}  // namespace hv::bench
