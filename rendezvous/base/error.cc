#include "rendezvous/base/error.h"

#include <cstring>

namespace hv::base {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kUsage:
      return "usage";
    case Code::kNotFound:
      return "not found";
    case Code::kTimeout:
      return "timeout";
    case Code::kPeerLost:
      return "peer lost";
    case Code::kMismatch:
      return "mismatch";
    case Code::kDuplicateName:
      return "duplicate name";
    case Code::kProtocol:
      return "protocol";
    case Code::kAuth:
      return "authentication";
    case Code::kSystem:
      return "system";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kShutdown:
      return "shut down";
    case Code::kAborted:
      return "aborted";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string describe(const Error& error) {
  return error.origin.empty() ? error.text : error.origin + ": " + error.text;
}

Error system_error(std::string what, int sys) {
  what += ": ";
  what += std::strerror(sys);
  return {Code::kSystem, std::move(what), {}, sys};
}

}  // namespace hv::base
