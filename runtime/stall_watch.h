// StallWatch: when a rank that waits must say so. Pure: time comes in as an argument.
//
// Thread: the baton holder's. Owner: the engine. With nothing pending there is nothing to wake for;
// while something is, one look each check time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "rendezvous/base/deadline.h"

namespace hv::runtime {

class StallWatch {
 public:
  using Time = base::Clock::time_point;
  using Duration = base::Clock::duration;
  static constexpr std::chrono::seconds kPatience{5};

  // `shutdown`: zero is never.
  StallWatch(bool on, Duration check, Duration shutdown)
      : on_(on), check_(check), shutdown_(shutdown) {}

  // To be called before each sleep: when to look next; never where nothing is pending.
  Time next(bool pending, Time now) {
    if (!on_ || !pending) return Time::max();
    if (!due_) due_ = now + check_;
    return *due_;
  }
  bool is_due(bool pending, Time now) {
    if (!pending) due_.reset();
    return due_ && now >= *due_;
  }

  // kShutDown: whoever has been told ends the job; kGiveUp: nobody has.
  enum class Verdict { kFine, kWarn, kShutDown, kGiveUp };
  // When due: `oldest`, when the oldest pending operation was submitted, if there is one.
  Verdict look(std::optional<Time> oldest, Time now) {
    due_.reset();
    if (!oldest) return Verdict::kFine;
    const Time warn = *oldest + check_;
    const Time end = shutdown_ > Duration::zero() ? *oldest + shutdown_ : Time::max();
    if (now >= end) {
      due_ = now + kPatience;
      return now - end < kPatience ? Verdict::kShutDown : Verdict::kGiveUp;
    }
    due_ = std::min(now < warn ? warn : now + check_, end);
    return now < warn ? Verdict::kFine : Verdict::kWarn;
  }

 private:
  bool on_;
  Duration check_, shutdown_;
  std::optional<Time> due_;
};

}  // namespace hv::runtime
