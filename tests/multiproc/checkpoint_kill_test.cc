// A process is killed while it writes one checkpoint after the other: what lies under a
// checkpoint's name is always whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/training/checkpoint_file.h"

namespace hv::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kElements = 1 << 20;

[[noreturn]] void write_for_ever(const fs::path& path) {
  std::vector<float> data(kElements);
  for (std::int64_t epoch = 1;; ++epoch) {
    data.assign(kElements, static_cast<float>(epoch));
    if (!write_checkpoint(path, {{"data", view(data)}}, {.epoch = epoch})) _exit(1);
  }
}

TEST(CheckpointKill, LeavesWholeFilesOnly) {
  const fs::path directory =
      fs::temp_directory_path() / ("hv_checkpoint_kill_test." + std::to_string(::getpid()));
  fs::create_directories(directory);
  const fs::path path = directory / "checkpoint-00000001.hvc";
  const fs::path unfinished = path.string() + ".tmp";
  int interrupted = 0;
  for (int round = 0; round < 20; ++round) {
    fs::remove(unfinished);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(path);
    while (!fs::exists(path) || !fs::exists(unfinished)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * (round % 5)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    interrupted += fs::exists(unfinished);

    std::vector<float> data(kElements);
    const auto state = read_checkpoint(path, {{"data", view(data)}});
    ASSERT_TRUE(state.has_value()) << state.error().text;
    for (float value : data) ASSERT_EQ(value, static_cast<float>(state->epoch));
  }
  EXPECT_GT(interrupted, 0) << "no kill came while a file was being written";
  fs::remove_all(directory);
}

}  // namespace
}  // namespace hv::runtime
