// The processes below this one, found by a walk of /proc. Agent and keeper are subreapers, so
// daemons and `setsid` grandchildren stay below them whatever their parents do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace hv::launcher {

void become_subreaper();

// Children, grandchildren …; parents before their children.
std::vector<pid_t> descendants(pid_t root);

// KILL to everything below this process; the dead are reaped elsewhere.
void kill_descendants();

// Kills and reaps until nothing is left below this process, or the time is over (a process in an
// uninterruptible wait cannot die).
void end_descendants(std::chrono::milliseconds at_most);

}  // namespace hv::launcher
