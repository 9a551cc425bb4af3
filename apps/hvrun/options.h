// The table of hvrun's options: names, values, checks and help, each said once. An option is added
// here (in its group), in flags.h, and where read_flags.cc puts it into the JobSpec.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/hvrun/flags.h"

namespace hv::apps {

void add_options(CLI::App& app, Flags& flags);

}  // namespace hv::apps
