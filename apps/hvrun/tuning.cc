#include "apps/hvrun/tuning.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "rendezvous/base/text.h"
#include "runtime/knobs.h"

namespace hv::apps {

using rendezvous::KeyValue;

namespace {

constexpr const char* kGroup = "Tuning of the ranks' runtime";
constexpr const char* kHidden = "";

enum class Kind { kSwitch, kWhole, kNumber, kMebibytes, kFraction, kText };

struct TuningOption {
  const char* name;
  Kind kind;
  const char* type;      // of the value; of a switch: what it sets
  const char* variable;  // with its prefix
  const char* text;      // null: not shown, the opposite of what is the default
};

constexpr TuningOption kTable[] = {
    {"--fusion-threshold-mb", Kind::kMebibytes, "MB", "HOROVOD_FUSION_THRESHOLD",
     "What one batch of tensors may hold (128); 0 runs every tensor alone"},
    {"--cycle-time-ms", Kind::kNumber, "MS", "HOROVOD_CYCLE_TIME",
     "For programs with Horovod's own core; hv has no cycle"},
    {"--cache-capacity", Kind::kWhole, "N", "HOROVOD_CACHE_CAPACITY",
     "Tensor names that travel as short ids; 0 sends every name in full"},
    {"--hierarchical-allreduce", Kind::kSwitch, "1", "HOROVOD_HIERARCHICAL_ALLREDUCE",
     "For programs with Horovod's own core; hv always works inside each host first"},
    {"--no-hierarchical-allreduce", Kind::kSwitch, "0", "HOROVOD_HIERARCHICAL_ALLREDUCE", nullptr},
    {"--hierarchical-allgather", Kind::kSwitch, "1", "HOROVOD_HIERARCHICAL_ALLGATHER",
     "For programs with Horovod's own core"},
    {"--no-hierarchical-allgather", Kind::kSwitch, "0", "HOROVOD_HIERARCHICAL_ALLGATHER", nullptr},
    {"--torus-allreduce", Kind::kSwitch, "1", "HOROVOD_TORUS_ALLREDUCE",
     "For programs with Horovod's own core"},
    {"--no-torus-allreduce", Kind::kSwitch, "0", "HOROVOD_TORUS_ALLREDUCE", nullptr},
    {"--autotune", Kind::kSwitch, "1", "HOROVOD_AUTOTUNE", "For programs with Horovod's own core"},
    {"--no-autotune", Kind::kSwitch, "0", "HOROVOD_AUTOTUNE", nullptr},
    {"--autotune-log-file", Kind::kText, "FILE", "HOROVOD_AUTOTUNE_LOG", "With --autotune"},
    {"--autotune-warmup-samples", Kind::kWhole, "N", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
     "With --autotune"},
    {"--autotune-steps-per-sample", Kind::kWhole, "N", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
     "With --autotune"},
    {"--autotune-bayes-opt-max-samples", Kind::kWhole, "N",
     "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "With --autotune"},
    {"--autotune-gaussian-process-noise", Kind::kFraction, "X",
     "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "With --autotune, from 0 to 1"},
    {"--timeline-filename", Kind::kText, "FILE", "HOROVOD_TIMELINE",
     "Trace of all operations, for Perfetto and chrome://tracing"},
    {"--timeline-mark-cycles", Kind::kSwitch, "1", "HOROVOD_TIMELINE_MARK_CYCLES",
     "Mark each round of decisions in it"},
    {"--no-timeline-mark-cycles", Kind::kSwitch, "0", "HOROVOD_TIMELINE_MARK_CYCLES", nullptr},
    {"--no-stall-check", Kind::kSwitch, "1", "HOROVOD_STALL_CHECK_DISABLE",
     "Say nothing of operations that wait for ranks"},
    {"--stall-check", Kind::kSwitch, "0", "HOROVOD_STALL_CHECK_DISABLE", nullptr},
    {"--stall-check-warning-time-seconds", Kind::kNumber, "S", "HOROVOD_STALL_CHECK_TIME_SECONDS",
     "Until the ranks that an operation waits for are named (60)"},
    {"--stall-check-shutdown-time-seconds", Kind::kNumber, "S",
     "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "Until such an operation ends the job; 0: never (0)"},
    {"--tcp", Kind::kSwitch, "1", "NCCL_IB_DISABLE", "Keep NCCL off InfiniBand"},
    {"--num-nccl-streams", Kind::kWhole, "N", "HOROVOD_NUM_NCCL_STREAMS",
     "For programs with Horovod's own core"},
    {"--thread-affinity", Kind::kText, "CORES", "HOROVOD_THREAD_AFFINITY",
     "Where the runtime's thread of each local rank runs: 0,4,8,12"},
    {"--gloo-timeout-seconds", Kind::kWhole, "S", "HOROVOD_GLOO_TIMEOUT_SECONDS",
     "For programs with Horovod's own core"},
    {"--log-without-timestamp", Kind::kSwitch, "1", "HOROVOD_LOG_HIDE_TIME",
     "Leave the time out of log lines"},
    {"--log-with-timestamp", Kind::kSwitch, "0", "HOROVOD_LOG_HIDE_TIME", nullptr},
    {"--log-hide-timestamp", Kind::kSwitch, "1", "HOROVOD_LOG_HIDE_TIME", nullptr},
    {"--no-log-hide-timestamp", Kind::kSwitch, "0", "HOROVOD_LOG_HIDE_TIME", nullptr},
};

// Empty: as it should be.
std::string what_is_wrong(Kind kind, const std::string& text) {
  bool whole = kind == Kind::kWhole || kind == Kind::kMebibytes;
  if (kind == Kind::kText || kind == Kind::kSwitch) return {};
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  double most = kind == Kind::kFraction ? 1 : 1e9;
  bool fine = whole ? base::parse_int(text).has_value() : !text.empty() && *end == '\0';
  if (fine && value >= 0 && value <= most) return {};
  std::string range = kind == Kind::kFraction ? "from 0 to 1" : "of at least 0";
  return "'" + text + "' is not a " + (whole ? "whole " : "") + "number " + range;
}

std::string value_of(Kind kind, const std::string& text) {
  if (kind != Kind::kMebibytes) return text;
  return std::to_string(*base::parse_int(text) << 20);
}

void keep_only_what_is_on(std::vector<KeyValue>& variables) {
  auto is_on = [&](std::string_view name) {
    return std::ranges::any_of(variables,
                               [&](const KeyValue& v) { return v.key == name && v.value != "0"; });
  };
  bool autotune = is_on("HOROVOD_AUTOTUNE"), timeline = is_on("HOROVOD_TIMELINE");
  std::erase_if(variables, [&](const KeyValue& v) {
    return (!autotune && v.key.starts_with("HOROVOD_AUTOTUNE_")) ||
           (!timeline && v.key.starts_with("HOROVOD_TIMELINE_"));
  });
}

}  // namespace

void add_tuning(CLI::App& app, std::vector<KeyValue>& variables) {
  std::map<std::string_view, std::vector<CLI::Option*>> of_variable;
  for (const auto& entry : kTable) {
    const char* text = entry.text != nullptr ? entry.text : "";
    CLI::Option* option = nullptr;
    if (entry.kind == Kind::kSwitch) {
      option = app.add_flag_function(
          entry.name,
          [&variables, &entry](std::int64_t) {
            variables.push_back({entry.variable, entry.type});
          },
          text);
    } else {
      option = app.add_option_function<std::string>(
          entry.name,
          [&variables, &entry](const std::string& value) {
            variables.push_back({entry.variable, value_of(entry.kind, value)});
          },
          text);
      option->type_name(entry.type);
      option->check(
          {[&entry](const std::string& value) { return what_is_wrong(entry.kind, value); }, ""});
    }
    option->group(entry.text != nullptr ? kGroup : kHidden);
    for (auto* other : of_variable[entry.variable]) option->excludes(other);
    of_variable[entry.variable].push_back(option);
  }
}

std::vector<KeyValue> under_all_names(const std::vector<KeyValue>& variables) {
  auto all = variables;
  keep_only_what_is_on(all);
  constexpr std::string_view kPrefix = "HOROVOD_";
  for (std::size_t i = 0, count = all.size(); i < count; ++i) {
    if (!all[i].key.starts_with(kPrefix)) continue;
    auto rest = std::string_view(all[i].key).substr(kPrefix.size());
    for (const auto& knob : runtime::knob_table()) {
      if (knob.horovod == nullptr || rest != knob.horovod) continue;
      all.push_back({std::string("HVRUN_") + knob.name, all[i].value});
      break;
    }
  }
  return all;
}

}  // namespace hv::apps
