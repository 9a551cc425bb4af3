// Starts one program as a rank: own process group, standard input from /dev/null, pipes for its
// output. vfork makes this cheap whatever the agent's size.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct ProcessSpec {
  std::string path;  // absolute
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  std::string working_directory;
};

struct StartedProcess {
  pid_t pid = 0;
  base::UniqueFd out, err;  // read ends, non-blocking
};

// The error's errno (sys) is that of the step that failed in the new process; its text names it.
base::Result<StartedProcess> start_process(const ProcessSpec& spec);

}  // namespace hv::launcher
