// --config-file: YAML with Horovod's schema (params, autotune, timeline, stall_check, …) and every
// option of hvrun under its own name, with dashes or underscores. What the command line says wins.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/hvrun/words.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

// The settings as options. kUsage with file, line, column and what may have been meant.
base::Result<std::vector<OptionWord>> parse_config(const std::string& text, const std::string& name,
                                                   const CLI::App& app);
base::Result<std::vector<OptionWord>> read_config_file(const std::string& path,
                                                       const CLI::App& app);

// `typed`, and those settings that it leaves open.
std::vector<OptionWord> complete_from(const std::vector<OptionWord>& settings,
                                      std::vector<OptionWord> typed, const CLI::App& app);

}  // namespace hv::apps
