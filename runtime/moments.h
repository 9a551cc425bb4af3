// Moments: when a batch passed the steps of its collective on this rank; noted only while the
// timeline is on.
#pragma once

#include <cstdint>
#include <string>

namespace hv::runtime {

std::int64_t now_ns();  // steady clock

struct Moments {
  std::int64_t started_ns = 0;  // its first chunk
  std::int64_t packed_ns = 0;   // the first chunk lay where others see it
  std::int64_t reduced_ns = 0;  // the last chunk was ready to be copied out
  std::string algorithm;

  void packed() {
    if (packed_ns == 0) packed_ns = now_ns();
  }
  void reduced() { reduced_ns = now_ns(); }
};

}  // namespace hv::runtime
