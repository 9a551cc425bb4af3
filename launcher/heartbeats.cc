#include "launcher/heartbeats.h"

namespace hv::launcher {

namespace {

std::string clock_text(std::time_t time) {
  char text[16];
  std::tm parts{};
  ::localtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return text;
}

}  // namespace

void Heartbeats::begin_round(const Now& now) {
  if (now.time - last_round_ > beat_ + lost_after_ / 2) heard_all(now);
  last_round_ = now.time;
}

std::optional<base::Error> Heartbeats::silence(std::uint32_t host, const Now& now) const {
  auto silent = now.time - heard_[host].time;
  if (silent < lost_after_) return std::nullopt;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silent).count();
  return base::Error{base::Code::kPeerLost,
                     "no sign of life for " + std::to_string(seconds) + " s (last heartbeat at " +
                         clock_text(heard_[host].wall) + ")",
                     {},
                     0};
}

}  // namespace hv::launcher
