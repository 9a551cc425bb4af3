// The learning rate of each step.
#pragma once

#include <cstdint>

#include "hv/export.h"

namespace hv {

struct ScheduleOptions {
  double rate = 0.1;  // right for a global batch of `reference_batch` rows
  std::int64_t reference_batch = 1;
  std::int64_t global_batch = 1;  // rows per step over all ranks and accumulated passes
  std::int64_t warmup_steps = 0;  // linear, from the unscaled rate to the scaled one
  std::int64_t total_steps = 0;   // 0: constant after warm-up; else cosine decay up to here
  double final_fraction = 0.0;    // of the peak, where the decay ends
};

// Scales the rate linearly with the global batch, never with the number of ranks: the same global
// batch on more ranks trains with the same rates. Where scaling raises the rate, the first
// warmup_steps climb to it. A plain value: thread safe; wrong options throw kInvalidArgument.
class HV_API LearningRate {
 public:
  explicit LearningRate(const ScheduleOptions& options);
  double peak() const;
  double at(std::int64_t step) const;  // steps count from 0 over the whole training

 private:
  ScheduleOptions options_;
};

}  // namespace hv
