// Starts one program as a rank: own process group, pipes for its output and, if asked for, its
// input (else /dev/null). In two steps, so that the ranks of a host start side by side: fork, and
// not vfork, which would hold the agent up until each has come to its exec.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/agent/binding.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct ProcessSpec {
  std::string path;  // absolute
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  std::string working_directory;
  bool with_input = false;
  Place place = {};
  int inherited = -1;  // a descriptor that stays open in it
};

struct StartedProcess {
  pid_t pid = 0;
  base::UniqueFd out, err;  // read ends, non-blocking
  base::UniqueFd in;        // write end, non-blocking; if asked for
};

struct StartingProcess {
  StartedProcess process;
  base::UniqueFd failure;  // its end: the program runs
};

base::Result<StartingProcess> begin_process(const ProcessSpec& spec);
// Waits until the program runs. The error's errno (sys) is that of the step that failed in the new
// process; its text names it.
base::Result<StartedProcess> finish_start(StartingProcess starting, const ProcessSpec& spec);
base::Result<StartedProcess> start_process(const ProcessSpec& spec);  // both

}  // namespace hv::launcher
