#include "apps/hvrun/refused.h"

#include <algorithm>

namespace hv::apps {

namespace {

constexpr const char* kNoMpi = "hvrun starts and connects the ranks itself, without MPI";
constexpr const char* kNotElastic =
    "a job of hvrun has a fixed number of ranks for now; name hosts with -H and ranks with -np";

constexpr RefusedOption kTable[] = {
    {"--mpi", false, kNoMpi},
    {"--mpi-args", true, kNoMpi},
    {"--mpi-threads-disable", false, kNoMpi},
    {"--no-mpi-threads-disable", false, kNoMpi},
    {"--jsrun", false, "hvrun starts the ranks itself, without jsrun"},
    {"--binding-args", true, "its words are mpirun's; hvrun's own are: --bind none, core or numa"},
    {"--min-np", true, kNotElastic},
    {"--min-num-proc", true, kNotElastic},
    {"--max-np", true, kNotElastic},
    {"--max-num-proc", true, kNotElastic},
    {"--slots-per-host", true, kNotElastic},
    {"--elastic-timeout", true, kNotElastic},
    {"--reset-limit", true, kNotElastic},
    {"--blacklist-cooldown-range", true, kNotElastic},
    {"--host-discovery-script", true, kNotElastic},
};

}  // namespace

std::span<const RefusedOption> refused_options() { return kTable; }

base::Result<void> check_refused(const std::vector<OptionWord>& options) {
  for (const auto& [name, value] : options) {
    auto refused = std::ranges::find(kTable, name, &RefusedOption::name);
    if (refused != std::end(kTable)) {
      return base::fail(base::Code::kUsage, name + " is not taken: " + refused->why);
    }
  }
  return {};
}

}  // namespace hv::apps
