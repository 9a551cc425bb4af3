// What the kernel leaves behind about how a rank ended. Looks at files of the kernel below `root`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace hv::launcher {

// Processes that the kernel has killed for want of memory in our control group (version 2, or the
// machine's count where there is none); a rise says that one of ours may have been.
std::int64_t oom_kills(const std::string& root = "");

// Where the core of this process is, by the kernel's pattern; empty where that leads to a program
// or cannot be known.
std::string core_file(const std::string& pattern, bool with_pid, pid_t pid,
                      const std::string& working_directory);
std::string core_file(pid_t pid, const std::string& working_directory);

}  // namespace hv::launcher
