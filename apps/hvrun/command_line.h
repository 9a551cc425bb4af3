// hvrun's command line: options up to the first word of the program, then the program's own.
#pragma once

#include <string>
#include <vector>

#include "launcher/job_spec.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

struct CommandLine {
  std::string text;          // --help, --version: print this and end
  bool check_build = false;  // print what this build can do, and end
  bool json = false;
  launcher::JobSpec spec;
  std::vector<std::string> notices;  // for standard error
};

// kUsage with what, where and what to type instead.
base::Result<CommandLine> parse_command_line(const std::vector<std::string>& args);

}  // namespace hv::apps
