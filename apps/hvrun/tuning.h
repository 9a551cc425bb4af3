// Options that tune the runtime in the ranks: each sets a variable. Horovod's names and units.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::apps {

// Appends to `variables`: HOROVOD_FUSION_THRESHOLD=67108864, …
void add_tuning(CLI::App& app, std::vector<rendezvous::KeyValue>& variables);

// The same under all names that are read: HVRUN_… where the runtime has such a knob, and HOROVOD_…
// for programs that are still linked with Horovod.
std::vector<rendezvous::KeyValue> under_all_names(
    const std::vector<rendezvous::KeyValue>& variables);

}  // namespace hv::apps
