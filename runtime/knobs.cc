#include "runtime/knobs.h"

#include <string>

#include "rendezvous/base/text.h"

namespace hv::runtime {
namespace {

constexpr KnobInfo kTable[] = {
    {"FUSION_THRESHOLD", &Knobs::fusion_bytes, 0, std::int64_t{1} << 40,
     "bytes that one batch may hold; 0 runs every tensor alone"},
    {"CACHE_CAPACITY", &Knobs::cache_names, 0, std::int64_t{1} << 24,
     "tensor names that travel as short ids; 0 sends every name in full"},
    {"START_TIMEOUT", &Knobs::start_timeout_s, 1, 7 * 24 * 3600,
     "seconds that init waits for the other ranks"},
    {"SPIN_US", &Knobs::spin_us, 0, 1'000'000,
     "microseconds that a waiting rank spins where it has a core of its own"},
};

}  // namespace

std::span<const KnobInfo> knob_table() { return kTable; }

base::Result<Knobs> read_knobs(const rendezvous::Getenv& getenv) {
  Knobs knobs;
  for (const KnobInfo& knob : kTable) {
    std::string variable = std::string("HVRUN_") + knob.name;
    auto text = getenv(variable.c_str());
    if (!text) {
      variable = std::string("HOROVOD_") + knob.name;
      text = getenv(variable.c_str());
    }
    if (!text) continue;
    auto value = base::parse_int(*text);
    if (!value || *value < knob.low || *value > knob.high) {
      return base::fail(base::Code::kUsage, variable + " is '" + *text +
                                                "'; it must be a whole number from " +
                                                std::to_string(knob.low) + " to " +
                                                std::to_string(knob.high) + " (" + knob.help + ")");
    }
    knobs.*knob.value = *value;
  }
  return knobs;
}

}  // namespace hv::runtime
