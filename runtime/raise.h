// From the one error value inside to the exception of the public API.
#pragma once

#include "hv/error.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

[[noreturn]] inline void raise(const base::Error& error) {
  throw Error(static_cast<ErrorCode>(error.code), base::describe(error));
}

template <class T>
T value_or_raise(base::Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace hv::runtime
