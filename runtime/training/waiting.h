// Waiting for many handles.
#pragma once

#include <exception>
#include <vector>

#include "hv/hv.h"

namespace hv::runtime {

// Waits for all, also after one has failed, since their memory is lent until then; throws the
// first error at the end.
inline void wait_all(std::vector<Handle>& handles) {
  std::exception_ptr first;
  for (auto& handle : handles) {
    try {
      handle.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hv::runtime
