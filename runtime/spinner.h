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
    const bool quick = is_quick();
    if (waited_ >= time_ && (yielded_ >= yields_ || !quick)) return false;
    ++yielded_;
    ::sched_yield();  // the rank that we wait for may share our core after all
    return true;
  }

 private:
  // On a machine that is busy with other work each yield costs slices of others: a sleeper is back
  // sooner, as its waker runs it at once.
  bool is_quick() {
    const auto now = base::Clock::now();
    if (yielded_ == 0) yielding_since_ = now;
    return now - yielding_since_ < kYielding;
  }

  static constexpr std::chrono::microseconds kAlone{5};
  static constexpr std::chrono::milliseconds kYielding{10};
  base::Clock::duration time_, alone_;
  base::Clock::duration waited_{};
  base::Clock::time_point since_, yielding_since_;
  int yields_;
  unsigned turns_ = 0;
  int yielded_ = 0;
};

}  // namespace hv::runtime
