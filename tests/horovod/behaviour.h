// What the tests of this folder share: worlds of threads, on one pretend host and on three.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hv/hv.h"
#include "tests/support/error_of.h"
#include "tests/support/inproc_world.h"

namespace hv::tests {

inline std::vector<InprocOptions> one_and_three_hosts() {
  return {on_hosts({3}), on_hosts({2, 1, 1})};
}

template <class T>
std::vector<T> values_of(const TensorView& tensor) {
  const auto* data = static_cast<const T*>(tensor.data);
  return std::vector<T>(data, data + tensor.count());
}

}  // namespace hv::tests
