// Checkpoints over worlds of threads: what one rank finds on disk, all ranks learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hv/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/inproc_world.h"

namespace hv {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using tests::run_ranks;

class CheckpointsTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  // One tensor "w", all `value`, saved by as many ranks.
  void save(int ranks, float value, int keep = 2) {
    run_ranks({ranks}, [&](World& world) {
      std::vector<float> w(10, value);
      Checkpoints(world, directory_, keep)
          .save({{"w", view(w)}}, {.epoch = static_cast<std::int64_t>(value)});
    });
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void damage(const std::string& name) const {
    std::fstream file(directory_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-12, std::ios::end);
    file.put('\x55');
  }

  const fs::path directory_ =
      fs::temp_directory_path() / ("hv_checkpoints_test." + std::to_string(::getpid())) / "deep";
};

TEST_F(CheckpointsTest, AnyNumberOfRanksResumes) {
  save(3, 7);
  for (int ranks : {1, 2, 4}) {
    run_ranks({ranks}, [&](World& world) {
      std::vector<float> w(10, static_cast<float>(world.rank()));
      const auto state = Checkpoints(world, directory_).restore({{"w", view(w)}});
      ASSERT_TRUE(state.has_value());
      EXPECT_EQ(state->epoch, 7);
      EXPECT_THAT(w, Each(7.0f));
    });
  }
}

TEST_F(CheckpointsTest, CarriesNotesAndStep) {
  run_ranks({2}, [&](World& world) {
    std::vector<float> w(1);
    const TrainingState state{.epoch = 1, .step = 99, .notes = {{"seed", "3"}, {"k", "v w"}}};
    Checkpoints checkpoints(world, directory_);
    checkpoints.save({{"w", view(w)}}, state);
    const auto read = checkpoints.restore({{"w", view(w)}});
    EXPECT_EQ(read->step, 99);
    EXPECT_EQ(read->notes, state.notes);
  });
}

TEST_F(CheckpointsTest, NothingThereIsNoError) {
  run_ranks({2}, [&](World& world) {
    std::vector<float> w(1, 5);
    EXPECT_FALSE(Checkpoints(world, directory_).restore({{"w", view(w)}}).has_value());
    EXPECT_EQ(w[0], 5);
  });
}

TEST_F(CheckpointsTest, KeepsTheLastOnesAndNumbersOn) {
  for (int i = 1; i <= 4; ++i) save(1, static_cast<float>(i), 2);
  EXPECT_THAT(files(), ElementsAre("checkpoint-00000003.hvc", "checkpoint-00000004.hvc"));
  save(1, 5, 1);
  EXPECT_THAT(files(), ElementsAre("checkpoint-00000005.hvc"));
}

TEST_F(CheckpointsTest, LeavesOtherFilesAlone) {
  fs::create_directories(directory_);
  for (const char* name : {"checkpoint-.hvc", "checkpoint-1x.hvc", "model.bin", "checkpoint-9.txt",
                           "checkpoint-00000003.hvc.tmp"}) {
    std::ofstream(directory_ / name) << "mine";
  }
  save(1, 1, 1);
  save(1, 2, 1);
  EXPECT_EQ(files().size(), 6u);
  run_ranks({1}, [&](World& world) {
    std::vector<float> w(10);
    Checkpoints(world, directory_).restore({{"w", view(w)}});
    EXPECT_EQ(w[0], 2);
  });
}

TEST_F(CheckpointsTest, EveryRankLearnsOfADamagedFileAndOfTheOneBefore) {
  save(1, 1);
  save(1, 2);
  damage("checkpoint-00000002.hvc");
  run_ranks({3}, [&](World& world) {
    std::vector<float> w(10, 9);
    const auto error = error_of([&] { Checkpoints(world, directory_).restore({{"w", view(w)}}); });
    EXPECT_EQ(error.code(), ErrorCode::kProtocol);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-00000002.hvc does not match its checksum"));
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-00000001.hvc"));
    EXPECT_THAT(w, Each(9.0f));
  });
  fs::remove(directory_ / "checkpoint-00000002.hvc");
  run_ranks({1}, [&](World& world) {
    std::vector<float> w(10);
    Checkpoints(world, directory_).restore({{"w", view(w)}});
    EXPECT_THAT(w, Each(1.0f));
  });
}

TEST_F(CheckpointsTest, EveryRankLearnsThatSavingFailed) {
  save(1, 1);
  fs::create_directory(directory_ / "checkpoint-00000002.hvc.tmp");
  run_ranks({3}, [&](World& world) {
    std::vector<float> w(10);
    const auto error = error_of([&] { Checkpoints(world, directory_).save({{"w", view(w)}}, {}); });
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_THAT(error.what(), HasSubstr("checkpoint not saved"));
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-00000001.hvc is kept"));
  });
}

TEST_F(CheckpointsTest, EveryRankLearnsThatTheModelIsAnother) {
  save(1, 1);
  run_ranks({2}, [&](World& world) {
    std::vector<float> w(11);
    const auto error = error_of([&] { Checkpoints(world, directory_).restore({{"w", view(w)}}); });
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("holds w float32[10], the program has w float32[11]"));
  });
}

TEST_F(CheckpointsTest, RefusesUselessArguments) {
  run_ranks({1}, [&](World& world) {
    EXPECT_THROW(Checkpoints(world, ""), Error);
    EXPECT_THROW(Checkpoints(world, directory_, 0), Error);
  });
}

}  // namespace
}  // namespace hv
