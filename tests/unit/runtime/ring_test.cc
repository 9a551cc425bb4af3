#include "runtime/ring.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace hv::runtime {
namespace {

struct Memory {
  alignas(64) std::byte bytes[Ring::kHeader + 256] = {};
};

base::Bytes numbered(std::size_t n, int first = 0) {
  base::Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

TEST(Ring, GivesBackWhatWasWrittenAcrossItsEnd) {
  Memory memory;
  Ring writer(memory.bytes), reader(memory.bytes);
  for (int turn = 0; turn < 100; ++turn) {
    const auto sent = numbered(37, turn);
    ASSERT_EQ(writer.write(sent), sent.size());
    ASSERT_TRUE(reader.readable());
    base::Bytes got;
    reader.read(got);
    ASSERT_EQ(got, sent);
    ASSERT_FALSE(reader.readable());
  }
}

TEST(Ring, TakesOnlyWhatFitsAndAsksForRoom) {
  Memory memory;
  Ring writer(memory.bytes), reader(memory.bytes);
  EXPECT_FALSE(reader.take_starvation());
  EXPECT_EQ(writer.write(numbered(300)), 256u);
  EXPECT_EQ(writer.write(numbered(1)), 0u);
  base::Bytes got;
  reader.read(got);
  EXPECT_EQ(got, numbered(256));
  EXPECT_TRUE(reader.take_starvation());
  EXPECT_FALSE(reader.take_starvation());
  EXPECT_EQ(writer.write(numbered(44, 256)), 44u);
}

TEST(Ring, TwoThreadsStreamWithoutLoss) {
  Memory memory;
  constexpr std::size_t kTotal = 1 << 20;
  std::thread producer([&] {
    Ring writer(memory.bytes);
    std::size_t at = 0;
    while (at < kTotal) {
      base::Bytes chunk;
      for (std::size_t i = 0; i < 100 && at + i < kTotal; ++i) {
        chunk.push_back(static_cast<std::byte>((at + i) * 31 >> 3));
      }
      at += writer.write(chunk);
    }
  });
  Ring reader(memory.bytes);
  base::Bytes got;
  while (got.size() < kTotal) reader.read(got);
  producer.join();
  for (std::size_t i = 0; i < kTotal; ++i) {
    ASSERT_EQ(got[i], static_cast<std::byte>(i * 31 >> 3)) << "at byte " << i;
  }
}

}  // namespace
}  // namespace hv::runtime
