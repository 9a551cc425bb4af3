// Spinner: how long a waiting thread stays awake: looks again and again, then lets others run in
// between, then says that it is time to sleep.
#pragma once

#include <sched.h>

#include <algorithm>

#include "rendezvous/base/deadline.h"

namespace hv::runtime {

class Spinner {
 public:
  // Without time it only lets others run, a few times.
  Spinner(base::Clock::duration time, int yields)
      : time_(time), alone_(std::min<base::Clock::duration>(time, kAlone)), yields_(yields) {}

  void restart() {
    turns_ = 0;
    yielded_ = 0;
    waited_ = {};
  }

  bool again() {  // false: sleep
    if (time_.count() > 0) {
      // The clock costs as much as a round, so it is looked at now and then.
      if (turns_++ % 8 == 0) {
        const auto now = base::Clock::now();
        if (turns_ == 1) since_ = now;
        waited_ = now - since_;
      }
      if (waited_ < alone_) return true;
    }
    if (waited_ >= time_ && yielded_ >= yields_) return false;
    return yield();
  }

 private:
  // The rank that we wait for may share our core after all. But where others work, too, a yield
  // costs a slice of theirs each time, while a sleeper is run as soon as it is woken: then no more
  // yields for a while.
  bool yield() {
    static thread_local base::Clock::time_point busy_until;
    const auto before = base::Clock::now();
    if (before < busy_until) return false;
    ++yielded_;
    ::sched_yield();
    const auto after = base::Clock::now();
    if (after - before >= kSlice) busy_until = after + kBusy;
    return true;
  }

  static constexpr std::chrono::microseconds kAlone{5};
  static constexpr std::chrono::microseconds kSlice{500};
  static constexpr std::chrono::milliseconds kBusy{100};
  base::Clock::duration time_, alone_;
  base::Clock::duration waited_{};
  base::Clock::time_point since_;
  int yields_;
  unsigned turns_ = 0;
  int yielded_ = 0;
};

}  // namespace hv::runtime
