#include "rendezvous/codec.h"

namespace hv::rendezvous {

WireError to_wire(const base::Error& error) {
  return {static_cast<std::uint8_t>(error.code), error.text, error.origin, error.sys};
}

base::Error from_wire(const WireError& error) {
  bool known = error.code >= static_cast<std::uint8_t>(base::Code::kInvalidArgument) &&
               error.code <= static_cast<std::uint8_t>(base::Code::kInternal);
  return {known ? static_cast<base::Code>(error.code) : base::Code::kInternal, error.text,
          error.origin, error.sys};
}

}  // namespace hv::rendezvous
