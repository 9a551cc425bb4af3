// The one error value of the project: who decided (origin), what went wrong (code), a sentence for
// people (text) and, where the kernel said so, its errno (sys).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hv::base {

enum class Code : std::uint8_t {
  kInvalidArgument = 1,  // the caller's value is wrong; nothing was done
  kUsage,                // the command line or a file it names is wrong
  kNotFound,             // a program, file, host, tensor or key does not exist
  kTimeout,              // a deadline passed
  kPeerLost,             // a rank, agent or host is gone
  kMismatch,             // ranks asked for different things under one tensor name
  kDuplicateName,        // a tensor of this name is already pending on this rank
  kProtocol,             // the other end speaks something else
  kAuth,                 // the other end does not hold the job's secret
  kSystem,               // a system call failed; see sys
  kUnavailable,          // a feature or resource is missing here
  kShutdown,             // the world has been shut down
  kAborted,              // ended because of an earlier error elsewhere
  kInternal,             // a fault of hvrun itself
};

std::string_view to_string(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string text = {};    // complete sentence fragment: who, what, how long, what to do
  std::string origin = {};  // "rank 3 on h2", "agent on h1", "hvrun"; empty = here
  int sys = 0;              // errno, 0 if none
};

// "rank 3 on h2: connection reset (errno 104)": origin, text and errno in one line.
std::string describe(const Error& error);

// kSystem with the text "<what>: <strerror(sys)>".
Error system_error(std::string what, int sys);

}  // namespace hv::base
