// ClockOffset: how far another host's steady clock is ahead of ours, from answered beats. The
// answer was written somewhere between sending and receiving: the shorter the way, the better.
// Pure: times come in as arguments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace hv::launcher {

class ClockOffset {
 public:
  static constexpr std::size_t kSamples = 16;  // older ones are forgotten: clocks drift

  void add(std::int64_t sent_us, std::int64_t received_us, std::int64_t theirs_us) {
    if (received_us < sent_us) return;
    samples_.push_back({received_us - sent_us, theirs_us - (sent_us + received_us) / 2});
    if (samples_.size() > kSamples) samples_.pop_front();
  }
  std::size_t samples() const { return samples_.size(); }
  std::int64_t us() const {
    if (samples_.empty()) return 0;
    return std::ranges::min_element(samples_, {}, &Sample::way_us)->offset_us;
  }

 private:
  struct Sample {
    std::int64_t way_us, offset_us;
  };
  std::deque<Sample> samples_;
};

}  // namespace hv::launcher
