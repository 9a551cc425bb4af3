#include "runtime/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hv::runtime {
namespace {

using ::testing::HasSubstr;

base::Result<Knobs> read(std::map<std::string, std::string> variables) {
  return read_knobs([variables](const char* name) -> std::optional<std::string> {
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
}

TEST(Knobs, BothNamesAreReadAndOursWins) {
  EXPECT_EQ(read({{"HOROVOD_FUSION_THRESHOLD", "0"}})->fusion_bytes, 0);
  EXPECT_EQ(
      read({{"HOROVOD_FUSION_THRESHOLD", "1"}, {"HVRUN_FUSION_THRESHOLD", "2"}})->fusion_bytes, 2);
}

TEST(Knobs, AWrongValueNamesVariableValueAndRange) {
  for (const char* value : {"", "x", "-1", "1e3", "99999999999999"}) {
    auto knobs = read({{"HOROVOD_CACHE_CAPACITY", value}});
    ASSERT_FALSE(knobs) << value;
    EXPECT_EQ(knobs.error().code, base::Code::kUsage);
    EXPECT_THAT(knobs.error().text, HasSubstr("HOROVOD_CACHE_CAPACITY"));
    EXPECT_THAT(knobs.error().text, HasSubstr("from 0 to 16777216"));
  }
}

TEST(Knobs, DefaultsLieInTheirRanges) {
  const Knobs knobs;
  for (const KnobInfo& info : knob_table()) {
    EXPECT_GE(knobs.*info.value, info.low) << info.name;
    EXPECT_LE(knobs.*info.value, info.high) << info.name;
  }
}

}  // namespace
}  // namespace hv::runtime
