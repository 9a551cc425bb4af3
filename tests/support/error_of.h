// The error that a call throws; it must throw one.
#pragma once

#include <gtest/gtest.h>

#include "hv/error.h"

namespace hv::tests {

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "none");
}

}  // namespace hv::tests
