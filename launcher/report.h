// What hvrun says at the end: its exit codes and the closing block. Pure.
//
//   0          every rank exited 0
//   1..255     the first failed rank's code; 128 + N when signal N ended it
//   2          the command line, or a file it names, is wrong; nothing was started
//   126, 127   the program is not executable, was not found
//   129 130 143  hvrun itself got HUP, INT, TERM
//   71..78     below
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/error.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

enum ExitCode : int {
  kExitUsage = 2,
  kExitStartFailed = 71,   // an agent or a rank could not be started
  kExitStartTimeout = 72,  // not everything was up within --start-timeout
  kExitHostLost = 73,      // a host, its agent or the way to it is gone
  kExitLeftEarly = 74,     // a rank exited with 0 while others still needed it
  kExitInternal = 75,      // a fault of hvrun itself
  kExitProbeFailed = 76,   // --probe or --preflight has found what must not be
  kExitStalled = 77,       // an operation waited for ranks longer than HVRUN_STALL_SHUTDOWN_TIME
  kExitPreempted = 78,     // Slurm asked the job to end; --preempt-code sets another
  kExitNotExecutable = 126,
  kExitNotFound = 127,
};

// Why a job failed: the first failure. What comes after it is counted.
struct Cause {
  enum class Kind { kRank, kHost, kStart, kInterrupt, kStalled, kPreempted };
  Kind kind = Kind::kStart;
  int exit_code = kExitInternal;
  std::string text;  // a sentence: what happened; for kStart the whole block

  // kRank; for kHost only `host`
  int rank = -1;
  std::string host;
  int pid = 0;
  base::Millis after{0};  // since the start of the job
  std::vector<std::string> last_lines;
};

int exit_code_of(const rendezvous::RankExited& exited);  // as a shell counts: 128 + signal
Cause make_exit_cause(const rendezvous::RankExited& exited, const std::string& host,
                      base::Millis after);

// The closing block, without its final newline.
// `operations`: what the ranks waited for, see describe_wait; may be empty.
std::string format_cause(const Cause& cause, int consequences, const std::string& operations = {});

// One block for errors of many hosts: equal texts are said once, with their hosts.
struct HostError {
  std::string host;
  base::Error error;
};
std::string format_host_errors(const std::vector<HostError>& errors, std::size_t hosts);

std::string signal_name(int signal);      // "SIGSEGV"
int parse_signal(std::string_view name);  // "USR1", "SIGUSR1", "10"; 0: none

}  // namespace hv::launcher
