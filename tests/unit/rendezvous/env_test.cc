#include "rendezvous/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "rendezvous/base/log.h"

namespace hv::base {
namespace {

class EnvTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"HVRUN_TEST_KNOB", "HOROVOD_TEST_KNOB"}) ::unsetenv(name);
  }
};

TEST_F(EnvTest, OurNameWinsOverHorovods) {
  EXPECT_EQ(env_knob("TEST_KNOB"), std::nullopt);
  ::setenv("HOROVOD_TEST_KNOB", "theirs", 1);
  EXPECT_EQ(env_knob("TEST_KNOB"), "theirs");
  ::setenv("HVRUN_TEST_KNOB", "", 1);
  EXPECT_EQ(env_knob("TEST_KNOB"), "") << "set to nothing is set";
}

TEST_F(EnvTest, NumbersAreWholeAndInRange) {
  EXPECT_EQ(*env_int("HVRUN_TEST_KNOB", 7, 1, 10), 7);
  ::setenv("HVRUN_TEST_KNOB", " 10 ", 1);
  EXPECT_EQ(*env_int("HVRUN_TEST_KNOB", 7, 1, 10), 10);
  for (const char* bad : {"0", "11", "", "ten", "1.5", "-1"}) {
    ::setenv("HVRUN_TEST_KNOB", bad, 1);
    auto value = env_int("HVRUN_TEST_KNOB", 7, 1, 10);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().code, Code::kUsage);
    EXPECT_EQ(value.error().text,
              std::string("HVRUN_TEST_KNOB=") + bad + " is not a whole number from 1 to 10");
  }
}

TEST(Log, LevelsByName) {
  EXPECT_EQ(parse_log_level("TRACE"), LogLevel::kTrace);
  EXPECT_EQ(parse_log_level(" debug "), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("Warn"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("fatal"), LogLevel::kFatal);
  EXPECT_EQ(parse_log_level("loud"), std::nullopt);
}

TEST(Log, LinesNameTheProcessAndTheLevel) {
  set_log_name("rank 3 (100%)");
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  log(LogLevel::kInfo, "hello {} %v");
  log(LogLevel::kDebug, "too quiet");
  log(LogLevel::kFatal, "bye");
  auto text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" rank 3 (100%) info: hello {} %v\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" rank 3 (100%) fatal: bye\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("quiet"), std::string::npos);
  EXPECT_TRUE(log_enabled(LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogLevel::kDebug));
}

}  // namespace
}  // namespace hv::base
