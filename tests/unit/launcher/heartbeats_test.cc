#include "launcher/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;

Heartbeats::Now at(base::Millis time) {
  return {base::Clock::time_point{} + time, static_cast<std::time_t>(time / 1000ms)};
}

TEST(Heartbeats, SilenceNamesTheLastBeat) {
  Heartbeats beats(2, 1s, 5s, at(0ms));
  for (auto time = 1000ms; time <= 6000ms; time += 1000ms) {
    beats.begin_round(at(time));
    if (time <= 1000ms) beats.heard(0, at(time));
    beats.heard(1, at(time));
    EXPECT_FALSE(beats.silence(1, at(time)));
    EXPECT_EQ(beats.silence(0, at(time)).has_value(), time == 6000ms);
  }
  EXPECT_THAT(beats.silence(0, at(6000ms))->text,
              ContainsRegex("no sign of life for 5 s \\(last heartbeat at ..:..:01\\)"));
}

TEST(Heartbeats, AHostIsQuietTwoBeatsBeforeItIsLost) {
  Heartbeats beats(1, 1s, 5s, at(0ms));
  EXPECT_FALSE(beats.is_quiet(0, at(3000ms)));
  EXPECT_TRUE(beats.is_quiet(0, at(3001ms)));
  beats.heard(0, at(3002ms));
  EXPECT_FALSE(beats.is_quiet(0, at(3003ms)));
}

TEST(Heartbeats, OurOwnSleepIsForgiven) {
  Heartbeats beats(1, 1s, 5s, at(0ms));
  beats.begin_round(at(60000ms));
  EXPECT_FALSE(beats.silence(0, at(60000ms)));
  beats.begin_round(at(61000ms));
  EXPECT_FALSE(beats.silence(0, at(61000ms)));
  EXPECT_TRUE(beats.silence(0, at(65000ms)));
}

}  // namespace
}  // namespace hv::launcher
