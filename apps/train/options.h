// The command line of train.
#pragma once

#include <cstdint>
#include <string>

#include "hv/training.h"

namespace hv::train {

struct Options {
  std::int64_t epochs = 20;
  std::int64_t global_batch = 64;
  double lr = 0.05;  // for a global batch of kReferenceBatch rows
  std::uint64_t seed = 1;
  std::string checkpoint;  // directory; empty: none
  bool resume = false;
  std::string json;  // file; empty: none
  Compression compression = Compression::kNone;
  int accumulate = 1;  // backward passes per step
};

constexpr std::int64_t kReferenceBatch = 64;

// Prints help or a complaint and ends the process where there is nothing to run.
Options parse_options(int argc, char** argv);

}  // namespace hv::train
