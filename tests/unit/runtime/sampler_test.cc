#include "hv/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "hv/error.h"

namespace hv {
namespace {

using Rows = std::vector<std::int64_t>;

Rows sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

Rows all_rows(std::int64_t n) {
  Rows rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// What all ranks get of the epoch, joined, after checking that no rank has more than one row more
// than another.
Rows deal(std::int64_t rows, int size, std::int64_t epoch, const SamplerOptions& options) {
  Rows all;
  std::size_t fewest = SIZE_MAX, most = 0;
  for (int rank = 0; rank < size; ++rank) {
    DistributedSampler sampler(rows, rank, size, options);
    sampler.set_epoch(epoch);
    const auto part = sampler.indices();
    fewest = std::min(fewest, part.size());
    most = std::max(most, part.size());
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_LE(most - fewest, 1u) << rows << " rows over " << size;
  return all;
}

TEST(Sampler, GivesEveryRowToExactlyOneRankInEveryEpoch) {
  for (std::int64_t rows = 0; rows <= 40; ++rows) {
    for (int size = 1; size <= 17; ++size) {
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        for (bool shuffle : {false, true}) {
          ASSERT_EQ(sorted(deal(rows, size, epoch, {.shuffle = shuffle, .seed = 5})),
                    all_rows(rows))
              << rows << " rows over " << size << " in epoch " << epoch;
        }
      }
    }
  }
}

TEST(Sampler, MakesTheSameGlobalBatchesForEveryNumberOfRanks) {
  constexpr std::int64_t kRows = 103;
  for (std::int64_t global_batch : {1, 2, 7, 32, 102, 103, 104, 1000}) {
    std::vector<Rows> expected;
    for (int size : {1, 2, 3, 4, 5, 6, 8, 16, 104, 200}) {
      const auto batches = DistributedSampler(kRows, 0, size).batches(global_batch);
      ASSERT_EQ(batches, (kRows + global_batch - 1) / global_batch);
      for (std::int64_t k = 0; k < batches; ++k) {
        Rows batch;
        std::size_t fewest = SIZE_MAX, most = 0;
        for (int rank = 0; rank < size; ++rank) {
          DistributedSampler sampler(kRows, rank, size, {.seed = 9});
          sampler.set_epoch(4);
          const auto part = sampler.batch(k, global_batch);
          fewest = std::min(fewest, part.size());
          most = std::max(most, part.size());
          batch.insert(batch.end(), part.begin(), part.end());
        }
        ASSERT_LE(most - fewest, 1u);
        batch = sorted(batch);
        if (size == 1) expected.push_back(batch);
        ASSERT_EQ(batch, expected[static_cast<std::size_t>(k)])
            << "batch " << k << " of " << global_batch << " over " << size;
      }
    }
    Rows epoch;
    for (const auto& batch : expected) epoch.insert(epoch.end(), batch.begin(), batch.end());
    ASSERT_EQ(sorted(epoch), all_rows(kRows));
  }
}

TEST(Sampler, ARanksBatchesAreItsShareOfTheEpoch) {
  DistributedSampler sampler(50, 2, 3, {.seed = 1});
  Rows joined;
  for (std::int64_t k = 0; k < sampler.batches(8); ++k) {
    const auto part = sampler.batch(k, 8);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, sampler.indices());
}

TEST(Sampler, TheOrderDependsOnSeedAndEpochAndNothingElse) {
  DistributedSampler sampler(1000, 0, 1, {.seed = 1});
  const auto first = sampler.indices();
  EXPECT_NE(first, all_rows(1000));
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.indices(), first);
  EXPECT_EQ(DistributedSampler(1000, 0, 1, {.seed = 1}).indices(), first);
  EXPECT_NE(DistributedSampler(1000, 0, 1, {.seed = 2}).indices(), first);
}

// Pinned: a checkpoint resumed by another build must see the same order.
TEST(Sampler, TheOrderIsTheSameOnEveryPlatform) {
  EXPECT_EQ(DistributedSampler(8, 0, 1, {.seed = 42}).indices(), (Rows{7, 2, 4, 6, 1, 3, 0, 5}));
}

TEST(Sampler, ShufflesEvenly) {
  constexpr int kEpochs = 6000, kRows = 6;
  std::vector<int> first(kRows);
  DistributedSampler sampler(kRows, 0, 1, {.seed = 3});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    ++first[static_cast<std::size_t>(sampler.indices().front())];
  }
  for (int count : first) EXPECT_NEAR(count, kEpochs / kRows, 150);  // five standard deviations
}

TEST(Sampler, WithoutShufflingDealsInOrder) {
  const SamplerOptions in_order{.shuffle = false};
  EXPECT_EQ(DistributedSampler(7, 1, 3, in_order).indices(), (Rows{1, 4}));
  EXPECT_EQ(DistributedSampler(7, 0, 3, in_order).indices(), (Rows{0, 3, 6}));
  EXPECT_EQ(DistributedSampler(7, 0, 3, in_order).batch(1, 4), (Rows{6}));
  EXPECT_EQ(DistributedSampler(7, 2, 3, in_order).batch(1, 4), (Rows{5}));
}

TEST(Sampler, RefusesWhatCannotBe) {
  EXPECT_THROW(DistributedSampler(-1, 0, 1), Error);
  EXPECT_THROW(DistributedSampler(1, 0, 0), Error);
  EXPECT_THROW(DistributedSampler(1, 2, 2), Error);
  EXPECT_THROW(DistributedSampler(1, -1, 2), Error);
  const DistributedSampler sampler(10, 0, 1);
  EXPECT_THROW(sampler.batches(0), Error);
  EXPECT_THROW(sampler.batch(-1, 5), Error);
  EXPECT_NO_THROW(sampler.batch(1, 5));
  try {
    sampler.batch(2, 5);
    FAIL() << "batch 2 of 2 was given out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("batch 2 does not exist; the epoch has 2"));
  }
}

}  // namespace
}  // namespace hv
