// When each host was last heard, and who has been silent for too long. Time is an argument. Pure.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/error.h"

namespace hv::launcher {

class Heartbeats {
 public:
  struct Now {
    base::Clock::time_point time;
    std::time_t wall;  // for people
    static Now read() { return {base::Clock::now(), std::time(nullptr)}; }
  };

  Heartbeats(std::size_t hosts, base::Millis beat, base::Millis lost_after, const Now& now)
      : heard_(hosts, now), beat_(beat), lost_after_(lost_after), last_round_(now.time) {}

  void heard(std::uint32_t host, const Now& now) { heard_[host] = now; }
  void heard_all(const Now& now) { heard_.assign(heard_.size(), now); }

  // Once per beat, before silence() is asked. A round that comes late shows that hvrun was stopped
  // or the machine asleep: the silence was ours and is forgiven.
  void begin_round(const Now& now);
  std::optional<base::Error> silence(std::uint32_t host, const Now& now) const;
  // Will soon have been silent for too long, if nothing is heard.
  bool is_quiet(std::uint32_t host, const Now& now) const {
    return now.time - heard_[host].time > lost_after_ - 2 * beat_;
  }

 private:
  std::vector<Now> heard_;
  base::Millis beat_, lost_after_;
  base::Clock::time_point last_round_;
};

}  // namespace hv::launcher
