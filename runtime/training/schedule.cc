#include "hv/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "hv/error.h"

namespace hv {
namespace {

void require(bool ok, const std::string& text) {
  if (!ok) throw Error(ErrorCode::kInvalidArgument, "LearningRate: " + text);
}

}  // namespace

LearningRate::LearningRate(const ScheduleOptions& options) : options_(options) {
  require(std::isfinite(options.rate) && options.rate > 0,
          "rate is " + std::to_string(options.rate) + ", must be positive");
  require(options.reference_batch >= 1 && options.global_batch >= 1,
          "reference_batch and global_batch must be at least 1");
  require(options.warmup_steps >= 0 && options.total_steps >= 0,
          "warmup_steps and total_steps must not be negative");
  require(options.total_steps == 0 || options.warmup_steps <= options.total_steps,
          "warmup_steps (" + std::to_string(options.warmup_steps) + ") exceeds total_steps (" +
              std::to_string(options.total_steps) + ")");
  require(options.final_fraction >= 0 && options.final_fraction <= 1,
          "final_fraction is " + std::to_string(options.final_fraction) + ", must be in [0, 1]");
}

double LearningRate::peak() const {
  return options_.rate * static_cast<double>(options_.global_batch) /
         static_cast<double>(options_.reference_batch);
}

double LearningRate::at(std::int64_t step) const {
  const auto& o = options_;
  if (step < o.warmup_steps) {
    const double start = std::min(o.rate, peak());
    const double part = static_cast<double>(step) / static_cast<double>(o.warmup_steps);
    return start + (peak() - start) * part;
  }
  if (o.total_steps == 0) return peak();
  const std::int64_t span = o.total_steps - o.warmup_steps;
  const double part =
      span == 0
          ? 1.0
          : std::min(1.0, static_cast<double>(step - o.warmup_steps) / static_cast<double>(span));
  const double fall = 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  return peak() * (o.final_fraction + (1.0 - o.final_fraction) * fall);
}

}  // namespace hv
