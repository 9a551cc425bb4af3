#include "runtime/knobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "rendezvous/base/log.h"
#include "rendezvous/base/text.h"
#include "runtime/process_sets.h"

namespace hv::runtime {
namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr double kWeek = 7 * 24 * 3600;

Result<void> not_allowed() { return fail(Code::kUsage, ""); }

Result<void> one_of(std::string_view text, std::initializer_list<const char*> names) {
  const bool known =
      std::any_of(names.begin(), names.end(), [&](auto name) { return text == name; });
  return known ? Result<void>{} : not_allowed();
}

Result<void> check_deterministic(std::string_view text) {
  return one_of(text, {"on", "off", "placement", "1", "0"});
}

Determinism determinism_of(std::string_view text) {
  if (text == "placement") return Determinism::kPlacement;
  return text == "off" || text == "0" ? Determinism::kOff : Determinism::kOn;
}

Result<void> check_hierarchy(std::string_view text) { return one_of(text, {"slices", "leader"}); }

Result<void> check_algorithms(std::string_view text) {
  if (text.empty()) return {};
  auto tuning = with_algorithms({}, text);
  if (!tuning) return fail(tuning.error());
  return {};
}

Result<void> check_process_sets(std::string_view text) {
  if (text.empty()) return {};
  auto sets = parse_process_sets(text);
  if (!sets) return fail(sets.error());
  return {};
}

Result<void> check_compression(std::string_view text) {
  return one_of(text, {"", "none", "fp16", "bf16"});
}

Result<void> check_log_level(std::string_view text) {
  return base::parse_log_level(text) ? Result<void>{} : not_allowed();
}

Result<void> check_cores(std::string_view text) {
  if (text.empty()) return {};
  for (auto core : base::split(text, ',')) {
    auto number = base::parse_int(base::trim(core));
    if (!number || *number > 4095) return not_allowed();
  }
  return {};
}

constexpr KnobInfo kTable[] = {
    {"FUSION_THRESHOLD", "FUSION_THRESHOLD", &Knobs::fusion_bytes, 0, 0x1p40, nullptr, nullptr,
     "bytes that one batch may hold; 0 runs every tensor alone"},
    {"CACHE_CAPACITY", "CACHE_CAPACITY", &Knobs::cache_names, 0, 0x1p24, nullptr, nullptr,
     "tensor names that travel as short ids; 0 sends every name in full"},
    {"DISABLE_GROUP_FUSION", "DISABLE_GROUP_FUSION", &Knobs::group_fusion_off, 0, 0, nullptr,
     nullptr, "1 runs the tensors of a group together and with no others; equal on all ranks"},
    {"PROCESS_SETS", nullptr, &Knobs::process_sets, 0, 0, "lists of ranks, as in 0-3;4,6,8",
     &check_process_sets, "process sets that exist from the beginning; equal on all ranks"},
    {"HIERARCHY", nullptr, &Knobs::hierarchy, 0, 0, "slices or leader", &check_hierarchy,
     "between hosts every rank moves a slice, or one leader for each host moves everything"},
    {"ALGORITHM", nullptr, &Knobs::algorithm, 0, 0,
     "a list of flat, slices, in-place, direct, doubling, halving, tree, ring", &check_algorithms,
     "algorithms to use where they apply, instead of the selector's choice"},
    {"DETERMINISTIC", nullptr, &Knobs::deterministic, 0, 0, "on, placement or off",
     &check_deterministic,
     "results repeat bit for bit; placement: also if ranks move to other hosts, for more traffic; "
     "off allows algorithms that add in another order"},
    {"SPIN_US", nullptr, &Knobs::spin_us, 0, 1e6, nullptr, nullptr,
     "microseconds that a waiting rank spins where it has a core of its own"},
    {"THREAD_AFFINITY", "THREAD_AFFINITY", &Knobs::affinity, 0, 0,
     "cores, one per local rank, as in 0,4,8,12", &check_cores,
     "where the runtime's own thread of each local rank runs; unset binds nothing"},
    {"START_TIMEOUT", "START_TIMEOUT", &Knobs::start_timeout_s, 1, kWeek, nullptr, nullptr,
     "seconds that init waits for the other ranks"},
    {"STALL_CHECK_DISABLE", "STALL_CHECK_DISABLE", &Knobs::stall_check_off, 0, 0, nullptr, nullptr,
     "1 never warns of operations that wait for ranks, and never ends the job for it"},
    {"STALL_CHECK_TIME", "STALL_CHECK_TIME_SECONDS", &Knobs::stall_check_s, 0.1, kWeek, nullptr,
     nullptr, "seconds that an operation waits for ranks before the missing ones are named"},
    {"STALL_SHUTDOWN_TIME", "STALL_SHUTDOWN_TIME_SECONDS", &Knobs::stall_shutdown_s, 0, kWeek,
     nullptr, nullptr,
     "seconds after which such an operation ends the job; not below the check time; 0 is never"},
    {"TIMELINE", "TIMELINE", &Knobs::timeline, 0, 0, "a path", nullptr,
     "file for a trace of all operations, which Perfetto and chrome://tracing open"},
    {"TIMELINE_MARK_CYCLES", "TIMELINE_MARK_CYCLES", &Knobs::timeline_mark_cycles, 0, 0, nullptr,
     nullptr, "1 marks each round of decisions in the timeline"},
    {"GPU_PLUGIN", nullptr, &Knobs::gpu_plugin, 0, 0, "a path", nullptr,
     "libhv_nccl.so; unset: beside libhv.so, then where the system looks"},
    {"CUDA_LIBRARY", nullptr, &Knobs::cuda_library, 0, 0, "a path", nullptr,
     "the CUDA driver; unset: libcuda.so.1 where the system looks"},
    {"NCCL_LIBRARY", nullptr, &Knobs::nccl_library, 0, 0, "a path", nullptr,
     "NCCL; unset: libnccl.so.2 or librccl.so.1 where the system looks"},
    {"GPU_COMPRESSION", nullptr, &Knobs::gpu_compression, 0, 0, "none, fp16 or bf16",
     &check_compression,
     "as what float32 sums and averages of GPU tensors travel; equal on all ranks"},
    {"GPU_TIMEOUT", nullptr, &Knobs::gpu_timeout_s, 0, kWeek, nullptr, nullptr,
     "seconds that a batch of GPU tensors may take before the job ends; 0 is any time"},
    {"GPU_ABORT_TIMEOUT", nullptr, &Knobs::gpu_abort_timeout_s, 0.1, kWeek, nullptr, nullptr,
     "seconds that NCCL gets to let go after a failure before the process is ended"},
    {"NCCL_RANKS_PER_ID", nullptr, &Knobs::nccl_ranks_per_id, 1, 1e6, nullptr, nullptr,
     "ranks that meet at one NCCL unique id where NCCL (2.23) can use several"},
    {"LOG_LEVEL", "LOG_LEVEL", &Knobs::log_level, 0, 0,
     "trace, debug, info, warning, error or fatal", &check_log_level,
     "how much hvrun, agents and ranks tell on standard error"},
    {"LOG_HIDE_TIME", "LOG_HIDE_TIME", &Knobs::log_hide_time, 0, 0, nullptr, nullptr,
     "1 leaves the time out of log lines"},
};

// Read by Horovod only.
struct WithoutEffect {
  const char* names;
  const char* why;
};
constexpr WithoutEffect kWithoutEffect[] = {
    {"CYCLE_TIME", "operations are announced when they are submitted; there is no cycle"},
    {"HIERARCHICAL_ALLREDUCE, HIERARCHICAL_ALLGATHER, TORUS_ALLREDUCE",
     "collectives over several hosts always work inside each host first; see HVRUN_HIERARCHY"},
    {"AUTOTUNE, AUTOTUNE_*", "the algorithm is chosen by size, ranks and hosts"},
    {"DYNAMIC_PROCESS_SETS", "process sets can always be added and removed"},
    {"NUM_NCCL_STREAMS, BATCH_D2D_MEMCOPIES, ENABLE_ASYNC_COMPLETION, ENABLE_XLA_OPS",
     "they belong to Horovod's GPU path"},
    {"CONTROLLER, CPU_OPERATIONS, GLOO_*, MPI_THREADS_DISABLE, CCL_CACHE, ADASUM_MPI_CHUNK_SIZE",
     "there is one controller and one set of host operations"},
};

// HVRUN_ names that tell a rank its place; hvrun sets them.
constexpr const char* kContract[] = {
    "RANK",     "SIZE",      "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "EPOCH",
    "JOB",      "HOST",      "NUM_HOSTS",  "SECRET",     "AGENT",      "SERVER",     "BUILD",
    "RECORDER", "ADDRESSES", "PORT_RANGE", "DEVICE",     "TERMINAL"};

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f" : "%g", value);
  return text;
}

template <class T>
std::string range(const KnobInfo& knob, const T Knobs::*) {
  if constexpr (std::is_same_v<T, bool>) return "0 or 1";
  if constexpr (std::is_same_v<T, std::string>) return knob.allowed;
  const char* kind = std::is_same_v<T, double> ? "a number" : "a whole number";
  return std::string(kind) + " from " + number(knob.low) + " to " + number(knob.high);
}

bool parse(const KnobInfo& knob, std::string_view text, std::int64_t& value) {
  auto parsed = base::parse_int(text);
  value = parsed.value_or(0);
  return parsed && static_cast<double>(value) >= knob.low &&
         static_cast<double>(value) <= knob.high;
}

bool parse(const KnobInfo& knob, std::string_view text, double& value) {
  const std::string digits(text);
  char* end = nullptr;
  value = std::strtod(digits.c_str(), &end);
  return !digits.empty() && *end == '\0' && value >= knob.low && value <= knob.high;
}

bool parse(const KnobInfo&, std::string_view text, bool& value) {
  value = text == "1";
  return text == "1" || text == "0";
}

bool parse(const KnobInfo& knob, std::string_view text, std::string& value) {
  value = text;
  return knob.check == nullptr || knob.check(text).has_value();
}

Result<void> read_one(const KnobInfo& knob, const rendezvous::Getenv& getenv, Knobs& knobs) {
  std::string variable = std::string("HVRUN_") + knob.name;
  auto text = getenv(variable.c_str());
  if (!text && knob.horovod != nullptr) {
    variable = std::string("HOROVOD_") + knob.horovod;
    text = getenv(variable.c_str());
  }
  if (!text) return {};
  return std::visit(
      [&](auto member) -> Result<void> {
        if (parse(knob, *text, knobs.*member)) return {};
        return fail(Code::kUsage, variable + " is '" + *text + "'; it must be " +
                                      range(knob, member) + " (" + knob.help + ")");
      },
      knob.value);
}

std::string default_of(const KnobInfo& knob) {
  const Knobs defaults;
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = defaults.*member;
        if constexpr (std::is_same_v<decltype(value), const std::string&>) {
          return value.empty() ? "unset" : value;
        } else {
          return number(static_cast<double>(value));
        }
      },
      knob.value);
}

}  // namespace

std::span<const KnobInfo> knob_table() { return kTable; }

Result<Knobs> read_knobs(const rendezvous::Getenv& getenv) {
  Knobs knobs;
  for (const KnobInfo& knob : kTable) {
    if (auto ok = read_one(knob, getenv, knobs); !ok) return fail(ok.error());
  }
  if (knobs.stall_shutdown_s > 0 && knobs.stall_shutdown_s < knobs.stall_check_s) {
    return fail(Code::kUsage, "HVRUN_STALL_SHUTDOWN_TIME is " + number(knobs.stall_shutdown_s) +
                                  " s; it must be 0, or at least HVRUN_STALL_CHECK_TIME (" +
                                  number(knobs.stall_check_s) + " s)");
  }
  return knobs;
}

Tuning make_tuning(const Knobs& knobs) {
  Tuning tuning;
  tuning.determinism = determinism_of(knobs.deterministic);
  tuning.one_owner = knobs.hierarchy == "leader";
  return knobs.algorithm.empty() ? tuning : *with_algorithms(tuning, knobs.algorithm);
}

Result<int> core_of(const Knobs& knobs, int local_rank, int local_size) {
  if (knobs.affinity.empty()) return -1;
  const auto cores = base::split(knobs.affinity, ',');
  if (static_cast<int>(cores.size()) < local_size) {
    return fail(Code::kUsage, "HVRUN_THREAD_AFFINITY is '" + knobs.affinity + "', which names " +
                                  std::to_string(cores.size()) + " cores for " +
                                  std::to_string(local_size) + " ranks of this host");
  }
  return static_cast<int>(
      *base::parse_int(base::trim(cores[static_cast<std::size_t>(local_rank)])));
}

std::string describe_knobs() {
  std::string text =
      "Variables that hvrun and the ranks read. HVRUN_ names come first; the HOROVOD_ name is "
      "read\n"
      "where ours is unset. hvrun passes them on to every rank.\n";
  for (const KnobInfo& knob : kTable) {
    const std::string allowed = std::visit([&](auto m) { return range(knob, m); }, knob.value);
    text += std::string("\n  HVRUN_") + knob.name;
    if (knob.horovod != nullptr) text += std::string(", HOROVOD_") + knob.horovod;
    text += "\n      " + std::string(knob.help) + "\n      " + allowed +
            "; default: " + default_of(knob) + "\n";
  }
  text += "\nRead by Horovod, without effect here:\n";
  for (const WithoutEffect& row : kWithoutEffect) {
    text += "\n  HOROVOD_{" + std::string(row.names) + "}\n      " + row.why + "\n";
  }
  return text;
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const KnobInfo& knob : kTable) known.push_back(std::string("HVRUN_") + knob.name);
  for (const char* name : kContract) known.push_back(std::string("HVRUN_") + name);
  std::vector<std::string> warnings;
  for (const std::string& name : names) {
    if (!name.starts_with("HVRUN_") || std::find(known.begin(), known.end(), name) != known.end()) {
      continue;
    }
    auto near = base::closest(name.substr(6), [&] {
      std::vector<std::string> short_names;
      for (const auto& full : known) short_names.push_back(full.substr(6));
      return short_names;
    }());
    warnings.push_back("nothing reads " + name +
                       (near ? "; did you mean HVRUN_" + *near + "?" : "; see hvrun --help-env"));
  }
  return warnings;
}

}  // namespace hv::runtime
