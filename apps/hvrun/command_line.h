// hvrun's command line: options up to the first word of the program, then the program's own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/diagnose/probe_report.h"
#include "launcher/job_spec.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

enum class Act { kRun, kCheckBuild, kProbe };

struct CommandLine {
  std::string text;  // --help, --version: print this and end
  Act act = Act::kRun;
  bool json = false;
  bool preflight = false;
  launcher::diagnose::ProbeWish wish;              // of --probe and --preflight
  std::function<base::Result<int>()> job_command;  // instead of a job: something with one
  bool detach = false;
  std::string report_file;
  bool log_json = false;
  std::optional<base::LogLevel> log_level;
  launcher::JobSpec spec;
  std::vector<std::string> notices;  // for standard error
};

// kUsage with what, where and what to type instead.
base::Result<CommandLine> parse_command_line(const std::vector<std::string>& args);

}  // namespace hv::apps
