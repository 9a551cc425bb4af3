// A point in time made once at the edge and passed down, so that nested steps share one bound.
#pragma once

#include <algorithm>
#include <chrono>

namespace hv::base {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

class Deadline {
 public:
  static Deadline after(Clock::duration d) { return Deadline(Clock::now() + d); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline at(Clock::time_point t) { return Deadline(t); }

  bool passed(Clock::time_point now = Clock::now()) const { return now >= at_; }
  bool is_never() const { return at_ == Clock::time_point::max(); }
  Clock::time_point time() const { return at_; }

  // What poll() and friends take: -1 for never, else the milliseconds left, rounded up, at least 0.
  int poll_ms(Clock::time_point now = Clock::now()) const {
    if (is_never()) return -1;
    auto left = std::chrono::ceil<Millis>(at_ - now).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace hv::base
