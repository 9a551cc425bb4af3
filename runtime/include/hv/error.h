// The exception of the public API.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "hv/export.h"

namespace hv {

// Same values as inside hvrun; stable, also used by the C ABI.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument = 1,
  kUsage = 2,
  kNotFound = 3,
  kTimeout = 4,
  kPeerLost = 5,
  kMismatch = 6,
  kDuplicateName = 7,
  kProtocol = 8,
  kAuth = 9,
  kSystem = 10,
  kUnavailable = 11,
  kShutdown = 12,
  kAborted = 13,
  kInternal = 14,
};

// what() names who (rank, host), what (operation, tensor), for how long, and what to do.
class HV_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace hv
