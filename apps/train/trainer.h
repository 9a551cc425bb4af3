// The training itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/train/digits.h"
#include "apps/train/network.h"
#include "apps/train/options.h"
#include "apps/train/report.h"
#include "hv/training.h"

namespace hv::train {

// Purpose: one rank's share of the training. Thread: one, the caller's; gradients travel meanwhile
// on the runtime's. Owns model, data and optimizer. Throws hv::Error.
class Trainer {
 public:
  Trainer(World world, const Options& options, Report& report);
  void run();

 private:
  void resume();
  Score train_epoch(std::int64_t epoch);
  Score train_step(std::span<const std::int64_t> rows);
  Score sum_over_ranks(const std::string& name, Score score);
  Score test();
  std::vector<NamedTensor> tensors();

  World world_;
  const Options options_;
  Report& report_;
  const Digits digits_;
  Network network_;
  DistributedOptimizer optimizer_;
  DistributedSampler sampler_;
  LearningRate rate_;
  std::optional<Checkpoints> checkpoints_;
  TrainingState state_;
};

}  // namespace hv::train
