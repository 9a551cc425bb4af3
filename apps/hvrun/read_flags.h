// Flags and the words of the program → what was asked for.
#pragma once

#include <string>
#include <vector>

#include "apps/hvrun/command_line.h"
#include "apps/hvrun/flags.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

// `args` is the whole command line, for the corrected one in a message. kUsage.
base::Result<CommandLine> read_flags(const Flags& flags, const std::vector<std::string>& args,
                                     std::vector<std::string> program);

}  // namespace hv::apps
