// Result<T>: a value or an Error. `return fail(Code::kTimeout, "...")` from any Result function.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "rendezvous/base/error.h"

namespace hv::base {

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> fail(Code code, std::string text) {
  return fail(Error{code, std::move(text), {}, 0});
}

}  // namespace hv::base
