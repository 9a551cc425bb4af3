// One round of poll(2): who waits for what, and what to do when it is there. Callbacks must not
// destroy what another callback of the same round needs; owners sweep before the next round.
#pragma once

#include <poll.h>

#include <functional>
#include <utility>
#include <vector>

#include "rendezvous/base/deadline.h"

namespace hv::launcher {

class Poller {
 public:
  void watch(int fd, short events, std::function<void(short revents)> ready) {
    entries_.push_back({fd, events, 0});
    ready_.push_back(std::move(ready));
  }
  void wake_at(base::Clock::time_point time) { wake_ = std::min(wake_, time); }

  void run() {
    int n = ::poll(entries_.data(), entries_.size(), base::Deadline::at(wake_).poll_ms());
    for (std::size_t i = 0; n > 0 && i < entries_.size(); ++i) {
      if (entries_[i].revents != 0) ready_[i](entries_[i].revents);
    }
  }

 private:
  std::vector<pollfd> entries_;
  std::vector<std::function<void(short)>> ready_;
  base::Clock::time_point wake_ = base::Clock::time_point::max();
};

}  // namespace hv::launcher
