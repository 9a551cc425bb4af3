// Knobs: what a user may set by environment, read once per init, in one place. A value that is
// wrong is an error that names variable, value and allowed range.
#pragma once

#include <cstdint>
#include <span>

#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"

namespace hv::runtime {

struct Knobs {
  std::int64_t fusion_bytes = std::int64_t{128} << 20;  // 0: no fusion
  std::int64_t cache_names = 16384;                     // names that have ids; 0: none
  std::int64_t start_timeout_s = 30;
  std::int64_t spin_us = 50;  // only where there is a core for it
};

struct KnobInfo {
  const char* name;  // HVRUN_<name>; HOROVOD_<name> where that is unset
  std::int64_t Knobs::*value;
  std::int64_t low, high;
  const char* help;
};
std::span<const KnobInfo> knob_table();

base::Result<Knobs> read_knobs(const rendezvous::Getenv& getenv);

}  // namespace hv::runtime
