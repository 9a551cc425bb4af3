#include "launcher/timeline_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/clock_offset.h"

namespace hv::launcher {
namespace {

using nlohmann::json;
using rendezvous::OpRecord;
using rendezvous::OpState;

OpRecord record(const std::string& name, std::int64_t at) {
  OpRecord record;
  record.state = OpState::kDone;
  record.bytes = 4096;
  record.batch = 7;
  record.submitted_ns = at;
  record.agreed_ns = at + 1000;
  record.started_ns = at + 2000;
  record.packed_ns = at + 3000;
  record.reduced_ns = at + 5000;
  record.done_ns = at + 6000;
  record.kind.set("allreduce");
  record.dtype.set("float32");
  record.algorithm.set("shm-slices");
  record.name.set(name);
  return record;
}

class TimelineFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("hv-timeline-" + std::to_string(::getpid()) + ".json"))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  json read() const { return json::parse(std::ifstream(path_)); }
  std::vector<json> events(const std::string& name) const {
    std::vector<json> found;
    for (const auto& event : read()) {
      if (event["name"] == name) found.push_back(event);
    }
    return found;
  }
  std::string path_;
};

TEST_F(TimelineFileTest, IsWholeAfterEachWrite) {
  auto file = TimelineFile::open(path_, {"h0", "h1"}, 0);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(events("process_name").size(), 2U);
  for (int i = 0; i < 3; ++i) {
    const OpRecord one = record("g", 10'000 * i);
    file->add(1, {&one, 1}, 0);
    ASSERT_TRUE(file->write());
    EXPECT_EQ(events("ALLREDUCE").size(), static_cast<std::size_t>(i + 1));
  }
}

TEST_F(TimelineFileTest, PhasesAreNamedAsHorovodDoesAndLieInside) {
  auto file = TimelineFile::open(path_, {"h0"}, 1'000'000);
  const OpRecord one = record("layer.weight", 1'500'000);
  file->add(0, {&one, 1}, 0);
  ASSERT_TRUE(file->write());
  const auto whole = events("ALLREDUCE").at(0);
  EXPECT_EQ(whole["ts"], 501.0);
  EXPECT_EQ(whole["dur"], 5.0);
  EXPECT_EQ(whole["args"]["dtype"], "float32");
  EXPECT_EQ(whole["args"]["bytes"], 4096);
  EXPECT_EQ(events("NEGOTIATE_ALLREDUCE").at(0)["dur"], 1.0);
  double at = whole["ts"];
  for (const char* phase :
       {"QUEUE", "MEMCPY_IN_FUSION_BUFFER", "SHM_SLICES", "MEMCPY_OUT_FUSION_BUFFER"}) {
    const auto event = events(phase).at(0);
    EXPECT_EQ(event["ts"], at) << phase;
    EXPECT_EQ(event["tid"], whole["tid"]);
    at += event["dur"].get<double>();
  }
  EXPECT_EQ(at, whole["ts"].get<double>() + whole["dur"].get<double>());
  EXPECT_EQ(events("thread_name").at(0)["args"]["name"], "layer.weight");
}

TEST_F(TimelineFileTest, ATensorHasOneRowOnAllRanksAndClocksAreAligned) {
  auto file = TimelineFile::open(path_, {"h0", "h1"}, 0);
  const OpRecord here = record("g", 100'000), there = record("g", 5'100'000);
  file->add(0, {&here, 1}, 0);
  file->add(1, {&there, 1}, 5'000'000);
  ASSERT_TRUE(file->write());
  const auto both = events("ALLREDUCE");
  EXPECT_EQ(both.at(0)["tid"], both.at(1)["tid"]);
  EXPECT_EQ(both.at(0)["ts"], both.at(1)["ts"]);
}

TEST_F(TimelineFileTest, OddNamesStayReadable) {
  auto file = TimelineFile::open(path_, {"h"}, 0);
  const OpRecord one = record("quote\" back\\ tab\t \xff", 0);
  file->add(0, {&one, 1}, 0);
  ASSERT_TRUE(file->write());
  EXPECT_EQ(events("ALLREDUCE").size(), 1U);
}

TEST_F(TimelineFileTest, CyclesAndOperationsThatWereNeverAgreedOn) {
  auto file = TimelineFile::open(path_, {"h"}, 0);
  OpRecord cycle;
  cycle.kind.set("cycle");
  cycle.done_ns = 4000;
  OpRecord lost = record("lost", 0);
  lost.agreed_ns = 0;
  const std::vector<OpRecord> both = {cycle, lost};
  file->add(0, both, 0);
  ASSERT_TRUE(file->write());
  EXPECT_EQ(events("CYCLE_START").at(0)["ts"], 4.0);
  EXPECT_EQ(events("NEGOTIATE_ALLREDUCE").at(0)["dur"], 6.0);
  EXPECT_TRUE(events("ALLREDUCE").empty());
}

TEST_F(TimelineFileTest, AFileThatCannotBeMadeIsNamed) {
  auto file = TimelineFile::open("/proc/no/such/timeline", {"h"}, 0);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().text, ::testing::HasSubstr("/proc/no/such/timeline"));
}

TEST(ClockOffset, TheShortestWayCounts) {
  ClockOffset clock;
  EXPECT_EQ(clock.us(), 0);
  clock.add(0, 1000, 700'900);  // most of the way was one direction
  EXPECT_EQ(clock.us(), 700'400);
  clock.add(2000, 2100, 702'050);
  EXPECT_EQ(clock.us(), 700'000);
  clock.add(3000, 4000, 703'100);
  EXPECT_EQ(clock.us(), 700'000);
  for (std::size_t i = 0; i < ClockOffset::kSamples; ++i) clock.add(5000, 5500, 705'350);
  EXPECT_EQ(clock.us(), 700'100);  // what is old is forgotten
}

}  // namespace
}  // namespace hv::launcher
