#include "runtime/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

base::Result<Knobs> read(const Variables& variables) {
  return read_knobs([&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Knobs, Defaults) {
  auto knobs = read({});
  ASSERT_TRUE(knobs);
  EXPECT_EQ(knobs->fusion_bytes, 128 << 20);
  EXPECT_EQ(knobs->start_timeout_s, 30);
  EXPECT_EQ(knobs->stall_check_s, 60);
  EXPECT_EQ(knobs->stall_shutdown_s, 0);
  EXPECT_FALSE(knobs->stall_check_off);
}

TEST(Knobs, BothNamesAreReadAndOursWins) {
  EXPECT_EQ(read({{"HOROVOD_FUSION_THRESHOLD", "0"}})->fusion_bytes, 0);
  EXPECT_EQ(
      read({{"HOROVOD_FUSION_THRESHOLD", "1"}, {"HVRUN_FUSION_THRESHOLD", "2"}})->fusion_bytes, 2);
  EXPECT_EQ(read({{"HOROVOD_STALL_CHECK_TIME_SECONDS", "7.5"}})->stall_check_s, 7.5);
  EXPECT_EQ(read({{"HOROVOD_TIMELINE", "/tmp/t.json"}})->timeline, "/tmp/t.json");
  EXPECT_EQ(read({{"HOROVOD_LOG_LEVEL", "TRACE"}})->log_level, "TRACE");
}

TEST(Knobs, AWrongValueNamesVariableValueAndWhatIsAllowed) {
  struct Case {
    const char* variable;
    std::vector<const char*> values;
    const char* allowed;
  };
  const std::vector<Case> cases = {
      {"HOROVOD_CACHE_CAPACITY", {"", "x", "-1", "1e3", "99999999999999"}, "from 0 to 16777216"},
      {"HVRUN_STALL_CHECK_TIME", {"", "soon", "0", "-3", "5s", "nan"}, "from 0.1 to 604800"},
      {"HVRUN_STALL_CHECK_DISABLE", {"", "2", "yes"}, "0 or 1"},
      {"HVRUN_DETERMINISTIC", {"", "maybe"}, "on, placement or off"},
      {"HVRUN_ALGORITHM", {"fastest", "tree,"}, "doubling"},
      {"HVRUN_HIERARCHY", {"", "1"}, "slices or leader"},
      {"HOROVOD_THREAD_AFFINITY", {"a", "0,-1", "0,,1", "99999"}, "one per local rank"},
      {"HOROVOD_LOG_LEVEL", {"", "loud"}, "warning"},
  };
  for (const auto& [variable, values, allowed] : cases) {
    for (const char* value : values) {
      auto knobs = read({{variable, value}});
      ASSERT_FALSE(knobs) << variable << "=" << value;
      EXPECT_EQ(knobs.error().code, base::Code::kUsage);
      EXPECT_THAT(knobs.error().text, HasSubstr(std::string(variable) + " is '" + value + "'"));
      EXPECT_THAT(knobs.error().text, HasSubstr(allowed));
    }
  }
}

TEST(Knobs, ShutdownComesAfterTheWarning) {
  EXPECT_TRUE(read({{"HVRUN_STALL_CHECK_TIME", "5"}, {"HVRUN_STALL_SHUTDOWN_TIME", "5"}}));
  auto knobs = read({{"HVRUN_STALL_SHUTDOWN_TIME", "30"}});
  ASSERT_FALSE(knobs);
  EXPECT_THAT(knobs.error().text, HasSubstr("at least HVRUN_STALL_CHECK_TIME (60 s)"));
}

TEST(Knobs, DefaultsAreAllowed) {
  for (const KnobInfo& info : knob_table()) {
    const Knobs knobs;
    if (const auto* whole = std::get_if<std::int64_t Knobs::*>(&info.value)) {
      EXPECT_GE(static_cast<double>(knobs.*(*whole)), info.low) << info.name;
      EXPECT_LE(static_cast<double>(knobs.*(*whole)), info.high) << info.name;
    } else if (const auto* text = std::get_if<std::string Knobs::*>(&info.value)) {
      EXPECT_NE(info.allowed, nullptr) << info.name;
      EXPECT_TRUE(info.check == nullptr || info.check(knobs.*(*text))) << info.name;
    }
  }
}

TEST(Knobs, Tuning) {
  auto tuning = make_tuning(*read({{"HVRUN_ALGORITHM", "slices,direct"},
                                   {"HVRUN_DETERMINISTIC", "off"},
                                   {"HVRUN_HIERARCHY", "leader"}}));
  EXPECT_EQ(tuning.local, LocalAlgorithm::kSlices);
  EXPECT_EQ(tuning.cross, CrossAlgorithm::kDirect);
  EXPECT_EQ(tuning.determinism, Determinism::kOff);
  EXPECT_TRUE(tuning.one_owner);
  EXPECT_EQ(make_tuning({}).determinism, Determinism::kOn);
}

TEST(Knobs, ACoreForEachLocalRank) {
  Knobs knobs;
  EXPECT_EQ(core_of(knobs, 1, 2), -1);
  knobs.affinity = "4, 6";
  EXPECT_EQ(core_of(knobs, 0, 2), 4);
  EXPECT_EQ(core_of(knobs, 1, 2), 6);
  auto short_list = core_of(knobs, 0, 3);
  ASSERT_FALSE(short_list);
  EXPECT_THAT(short_list.error().text, HasSubstr("2 cores for 3 ranks"));
}

TEST(Knobs, TheTextNamesAllWithDefaults) {
  const std::string text = describe_knobs();
  for (const KnobInfo& info : knob_table()) {
    EXPECT_THAT(text, HasSubstr(std::string("HVRUN_") + info.name));
  }
  EXPECT_THAT(text, HasSubstr("HVRUN_FUSION_THRESHOLD, HOROVOD_FUSION_THRESHOLD"));
  EXPECT_THAT(text, HasSubstr("a whole number from 0 to 1099511627776; default: 134217728"));
  EXPECT_THAT(text, HasSubstr("a number from 0.1 to 604800; default: 60"));
}

TEST(Knobs, UnknownNamesGetASuggestion) {
  EXPECT_THAT(unknown_variables({"PATH", "HVRUN_RANK", "HVRUN_ALGORITHM", "HOROVOD_CYCLE_TIME"}),
              IsEmpty());
  EXPECT_THAT(unknown_variables({"HVRUN_FUSION_TRESHOLD", "HVRUN_XYZZY"}),
              ElementsAre("nothing reads HVRUN_FUSION_TRESHOLD; did you mean "
                          "HVRUN_FUSION_THRESHOLD?",
                          "nothing reads HVRUN_XYZZY; see hvrun --help-env"));
}

}  // namespace
}  // namespace hv::runtime
