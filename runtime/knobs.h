// Knobs: what a user may set by environment: one table, read once per init. A value that is wrong
// is an error that names variable, value and what is allowed. Pure, but for the Getenv given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"
#include "runtime/collective/select.h"

namespace hv::runtime {

struct Knobs {
  std::int64_t fusion_bytes = std::int64_t{128} << 20;  // 0: no fusion
  std::int64_t cache_names = 16384;                     // names that have ids; 0: none
  bool group_fusion_off = false;
  std::string process_sets;  // "": none to begin with
  std::int64_t start_timeout_s = 30;
  std::int64_t spin_us = 50;  // only where there is a core for it
  std::string algorithm;      // "": the selector's choice
  std::string deterministic = "on";
  std::string hierarchy = "slices";
  std::string affinity;  // "": none; else a core per local rank
  bool stall_check_off = false;
  double stall_check_s = 60;
  double stall_shutdown_s = 0;  // 0: never
  std::string timeline;         // a file; "" and DYNAMIC: none until start_timeline()
  bool timeline_mark_cycles = false;
  std::string gpu_plugin, cuda_library, nccl_library;  // "": the usual places
  std::string gpu_compression;                         // "": none
  double gpu_timeout_s = 600;                          // 0: never
  double gpu_abort_timeout_s = 5;
  std::int64_t nccl_ranks_per_id = 256;
  std::string log_level = "warning";
  bool log_hide_time = false;
};

struct KnobInfo {
  using Check = base::Result<void> (*)(std::string_view text);
  const char* name;     // HVRUN_<name>
  const char* horovod;  // HOROVOD_<horovod>, where ours is unset; null: Horovod has none
  std::variant<std::int64_t Knobs::*, double Knobs::*, bool Knobs::*, std::string Knobs::*> value;
  double low, high;     // of numbers
  const char* allowed;  // of texts
  Check check;          // of texts; null: anything
  const char* help;     // one sentence
};
std::span<const KnobInfo> knob_table();

base::Result<Knobs> read_knobs(const rendezvous::Getenv& getenv);
Tuning make_tuning(const Knobs& knobs);
// The core for this local rank, -1 for none. kUsage if the list is too short.
base::Result<int> core_of(const Knobs& knobs, int local_rank, int local_size);

// The table as text, with defaults: for hvrun --help-env.
std::string describe_knobs();
// One warning for each HVRUN_ name that nothing reads, with what may have been meant.
std::vector<std::string> unknown_variables(const std::vector<std::string>& names);

}  // namespace hv::runtime
