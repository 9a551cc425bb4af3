// Spinner: how long a waiting thread stays awake: spins where there is a core for it, then yields,
// then says that it is time to sleep.
#pragma once

#include <sched.h>

#include <cstdint>

#include "rendezvous/base/deadline.h"

namespace hv::runtime {

class Spinner {
 public:
  Spinner(base::Clock::duration spin, int yields) : spin_(spin), yields_(yields) { restart(); }

  void restart() {
    spinning_ = spin_.count() > 0;
    turns_ = 0;
    yielded_ = 0;
  }
  // False when it is time to sleep.
  bool again() {
    if (spinning_) {
      if (turns_++ == 0) until_ = base::Clock::now() + spin_;
      // The clock costs as much as a round, so it is looked at now and then.
      if (turns_ % 8 != 0 || base::Clock::now() < until_) return true;
      spinning_ = false;
    }
    if (yielded_ == yields_) return false;
    ++yielded_;
    ::sched_yield();
    return true;
  }

 private:
  base::Clock::duration spin_;
  int yields_;
  bool spinning_ = false;
  std::uint32_t turns_ = 0;
  int yielded_ = 0;
  base::Clock::time_point until_;
};

}  // namespace hv::runtime
