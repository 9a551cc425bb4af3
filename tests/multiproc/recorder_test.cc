// The flight recorder between a rank, which writes and dies, and its agent, which reads.
#include "rendezvous/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "launcher/agent/process.h"
#include "launcher/agent/rank_recorder.h"
#include "runtime/flight_recorder.h"

namespace hv {
namespace {

using launcher::RankRecorder;
using rendezvous::OpRecord;
using rendezvous::OpState;
using rendezvous::Presence;
using runtime::FlightRecorder;

runtime::Op named(const std::string& name) {
  runtime::Op op;
  op.name = name;
  op.input = {nullptr, DType::kFloat32, {1000}, -1};
  return op;
}

// Runs `body` with the recorder in a process that then kills itself; returns its pid.
int run_and_kill(const RankRecorder& recorder, const std::function<void(FlightRecorder&)>& body) {
  const int pid = ::fork();
  if (pid == 0) {
    auto mine = FlightRecorder::open(recorder.variable().value);
    mine.enter(::getpid());
    body(mine);
    ::raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return pid;
}

TEST(Recorder, OutlivesItsRank) {
  RankRecorder recorder(3);
  ASSERT_GE(recorder.descriptor(), 0);
  EXPECT_EQ(recorder.view().presence, static_cast<std::uint8_t>(Presence::kNotYet));
  const int pid = run_and_kill(recorder, [](FlightRecorder& mine) {
    for (int i = 0; i < 100; ++i) {
      const auto place = mine.submitted(named("g" + std::to_string(i)), runtime::now_ns());
      mine.agreed(place, static_cast<std::uint64_t>(i) + 1, runtime::now_ns());
      mine.finished(place, true, runtime::now_ns(), nullptr);
    }
    mine.submitted(named("waits"), runtime::now_ns());
    mine.set_members(2, "0-3");
  });
  const auto view = recorder.view();
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.pid, pid);
  EXPECT_EQ(view.process_state, 0);
  EXPECT_EQ(view.presence, static_cast<std::uint8_t>(Presence::kInWorld));
  EXPECT_EQ(view.submitted, 101u);
  EXPECT_EQ(view.finished, 100u);
  ASSERT_EQ(view.ops.size(), 33u);  // the pending one, then the last finished
  EXPECT_EQ(view.ops[0].name, "waits");
  EXPECT_EQ(view.ops[0].state, static_cast<std::uint8_t>(OpState::kSubmitted));
  EXPECT_EQ(view.ops[0].bytes, 4000u);
  EXPECT_GE(view.ops[0].submitted_us_ago, 0);
  EXPECT_LT(view.ops[0].submitted_us_ago, 60'000'000);
  EXPECT_EQ(view.ops[1].name, "g68");
  EXPECT_EQ(view.ops[32].name, "g99");
  EXPECT_EQ(view.ops[32].batch, 100u);
  ASSERT_EQ(view.sets.size(), 1u);
  EXPECT_EQ(view.sets[0].value, "0-3");
}

TEST(Recorder, TheProcessStateIsThatOfNow) {
  RankRecorder recorder(0);
  const int pid = ::fork();
  if (pid == 0) {
    for (;;) ::pause();
  }
  recorder.set_process(pid);
  ::kill(pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_EQ(recorder.view().process_state, 'T');
  ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(recorder.view().process_state, 0);
}

TEST(Recorder, TheTimelineTakesAllOnceAndCountsWhatHadNoRoom) {
  RankRecorder recorder(0);
  recorder.set_tracing({true, true});
  constexpr std::uint64_t kMany = rendezvous::kTraceRoom + 500;
  run_and_kill(recorder, [](FlightRecorder& mine) {
    ASSERT_TRUE(mine.tracing());
    const runtime::Moments moments{5, 6, 7, "shm-flat"};
    for (std::uint64_t i = 0; i < kMany; ++i) {
      const auto place = mine.submitted(named("n"), 1);
      mine.agreed(place, i + 1, 2);
      mine.finished(place, i % 2 == 0, 8, &moments);
    }
    mine.decided(9);
  });
  std::uint64_t taken = 0, dropped = 0;
  for (;;) {
    const auto traced = recorder.take_traced();
    dropped = traced.dropped;
    if (traced.records.empty()) break;
    ASSERT_EQ(traced.records.size() % sizeof(OpRecord), 0u);
    for (std::size_t at = 0; at < traced.records.size(); at += sizeof(OpRecord)) {
      OpRecord record;
      std::memcpy(static_cast<void*>(&record), traced.records.data() + at, sizeof record);
      EXPECT_EQ(record.batch, ++taken);
      EXPECT_EQ(record.state, taken % 2 == 1 ? OpState::kDone : OpState::kFailed);
      EXPECT_EQ(record.algorithm.view(), "shm-flat");
      EXPECT_EQ(record.packed_ns, 6);
    }
  }
  EXPECT_EQ(taken, rendezvous::kTraceRoom);
  EXPECT_EQ(dropped, 501u);  // with the mark of the decision
  recorder.set_tracing({false, false});
  run_and_kill(recorder, [](FlightRecorder& mine) { EXPECT_FALSE(mine.tracing()); });
}

// Through exec, as the agent starts ranks.
TEST(Recorder, TheDescriptorStaysOpenInTheProgram) {
  RankRecorder recorder(0);
  launcher::ProcessSpec spec{
      "/bin/sh",
      {"sh", "-c", "readlink /proc/self/fd/$HVRUN_RECORDER"},
      {"PATH=/usr/bin:/bin", recorder.variable().key + "=" + recorder.variable().value},
      "/"};
  spec.inherited = recorder.descriptor();
  auto started = launcher::start_process(spec);
  ASSERT_TRUE(started) << started.error().text;
  ::fcntl(started->out.get(), F_SETFL, 0);
  char text[100] = {};
  EXPECT_GT(::read(started->out.get(), text, sizeof text - 1), 0);
  EXPECT_NE(std::strstr(text, "hv-recorder"), nullptr) << text;
  int status = 0;
  EXPECT_EQ(::waitpid(started->pid, &status, 0), started->pid);
}

// A rank cannot make the agent fault, whatever it does to the memory.
TEST(Recorder, NonsenseIsReadWithoutHarm) {
  RankRecorder recorder(0);
  std::vector<unsigned char> noise(rendezvous::kRecorderBytes, 0xff);
  ASSERT_EQ(::pwrite(recorder.descriptor(), noise.data(), noise.size(), 0),
            static_cast<ssize_t>(noise.size()));
  EXPECT_NE(::ftruncate(recorder.descriptor(), 0), 0) << "it is sealed";
  EXPECT_LE(recorder.view().ops.size(), 500u);
  EXPECT_LE(recorder.take_traced().records.size(), rendezvous::kRecorderBytes);
}

}  // namespace
}  // namespace hv
