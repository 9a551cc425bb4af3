#include "runtime/training/checkpoint_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace hv::runtime {
namespace {

namespace fs = std::filesystem;
using base::Code;
using testing::HasSubstr;

class CheckpointFile : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  // The tensors that the tests save: two types, one scalar, one without elements.
  std::vector<NamedTensor> tensors() {
    return {{"weight", view(weight_.data(), {2, 3})},
            {"steps", view(&steps_, {})},
            {"nothing", view(weight_.data(), {0, 3})}};
  }

  std::string read_file() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_file(const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }

  // The error of reading; the tensors must then be as before.
  base::Error refused(const std::vector<NamedTensor>& into) {
    const auto weight = weight_;
    const auto steps = steps_;
    const auto result = read_checkpoint(path_, into);
    EXPECT_FALSE(result.has_value());
    EXPECT_EQ(weight_, weight);
    EXPECT_EQ(steps_, steps);
    return result ? base::Error{} : result.error();
  }

  const fs::path directory_ =
      fs::temp_directory_path() / ("hv_checkpoint_file_test." + std::to_string(::getpid()));
  const fs::path path_ = directory_ / "checkpoint-00000001.hvc";
  std::vector<float> weight_{1, 2, 3, 4, 5, 6};
  std::int64_t steps_ = 77;
};

TEST_F(CheckpointFile, ReadsBackWhatWasWritten) {
  const TrainingState state{.epoch = 3, .step = 300, .notes = {{"seed", "7"}, {"empty", ""}}};
  ASSERT_TRUE(write_checkpoint(path_, tensors(), state));
  weight_.assign(6, 0.0f);
  steps_ = 0;
  auto reversed = tensors();
  std::reverse(reversed.begin(), reversed.end());  // names matter, order does not
  const auto read = read_checkpoint(path_, reversed);
  ASSERT_TRUE(read.has_value()) << read.error().text;
  EXPECT_EQ(read->epoch, 3);
  EXPECT_EQ(read->step, 300);
  EXPECT_EQ(read->notes, state.notes);
  EXPECT_EQ(weight_, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(steps_, 77);
}

TEST_F(CheckpointFile, LeavesNothingBesideTheFile) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {}));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(CheckpointFile, TellsOfEveryPlaceWhereItWasCut) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {.notes = {{"seed", "7"}}}));
  const std::string whole = read_file();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(whole.substr(0, length));
    const auto error = refused(tensors());
    ASSERT_EQ(error.code, Code::kProtocol) << length;
    ASSERT_THAT(error.text, HasSubstr(path_.string()));
  }
  write_file(whole.substr(0, whole.size() - 1));
  EXPECT_THAT(refused(tensors()).text, HasSubstr("half-written"));
  write_file(whole + "x");
  EXPECT_EQ(refused(tensors()).code, Code::kProtocol);
}

TEST_F(CheckpointFile, TellsOfEveryByteThatChanged) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {.notes = {{"seed", "7"}}}));
  const std::string whole = read_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit : {0, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      write_file(damaged);
      ASSERT_EQ(refused(tensors()).code, Code::kProtocol) << "byte " << at << " bit " << bit;
    }
  }
}

TEST_F(CheckpointFile, SaysWhatIsNotACheckpoint) {
  write_file(std::string(100, 'a'));
  EXPECT_THAT(refused(tensors()).text, HasSubstr("not a checkpoint"));
  fs::remove(path_);
  const auto missing = refused(tensors());
  EXPECT_EQ(missing.code, Code::kSystem);
  EXPECT_THAT(missing.text, HasSubstr(path_.string()));
}

TEST_F(CheckpointFile, SaysWhichVersionItCannotRead) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {}));
  std::string file = read_file();
  file[8] = 9;
  write_file(file);
  EXPECT_THAT(refused(tensors()).text, HasSubstr("format version 9, this program reads 1"));
}

TEST_F(CheckpointFile, SaysWhichTensorDiffers) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {}));
  auto more = tensors();
  more.push_back({"bias", view(weight_)});
  EXPECT_THAT(refused(more).text, HasSubstr("lacks bias float32[6]"));
  auto fewer = tensors();
  fewer.erase(fewer.begin() + 1);
  EXPECT_THAT(refused(fewer).text, HasSubstr("holds steps int64[]"));
  auto other_shape = tensors();
  other_shape[0].tensor.shape = {3, 2};
  EXPECT_THAT(refused(other_shape).text,
              HasSubstr("holds weight float32[2, 3], the program has weight float32[3, 2]"));
  EXPECT_EQ(refused(other_shape).code, Code::kMismatch);
  std::vector<std::int32_t> integers(6);
  auto other_type = tensors();
  other_type[0].tensor = view(integers.data(), {2, 3});
  EXPECT_THAT(refused(other_type).text, HasSubstr("the program has weight int32[2, 3]"));
}

TEST_F(CheckpointFile, AFailedWriteKeepsTheOldFile) {
  ASSERT_TRUE(write_checkpoint(path_, tensors(), {.epoch = 1}));
  const std::string before = read_file();
  fs::create_directory(path_.string() + ".tmp");  // opening it for writing fails, also for root
  const auto written = write_checkpoint(path_, tensors(), {.epoch = 2});
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kSystem);
  EXPECT_NE(written.error().sys, 0);
  EXPECT_EQ(read_file(), before);
}

TEST(Crc64, IsTheOneOfXz) {
  EXPECT_EQ(crc64(base::as_bytes("123456789")), 0x995dc9bbdf1939fau);
  EXPECT_EQ(crc64(base::as_bytes("6789"), crc64(base::as_bytes("12345"))), 0x995dc9bbdf1939fau);
  EXPECT_EQ(crc64({}), 0u);
}

}  // namespace
}  // namespace hv::runtime
