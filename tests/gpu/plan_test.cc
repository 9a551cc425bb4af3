// What a batch becomes on the device, and how ranks judge each other before they begin.
#include "runtime/backend/nccl/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backend/nccl/kernels.h"
#include "runtime/backend/nccl/meeting.h"

namespace hv::runtime::nccl {
namespace {

using Kind = Call::Kind;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::byte* at(std::size_t address) { return reinterpret_cast<std::byte*>(address); }

Batch sum_of(const std::vector<std::int64_t>& counts, DType dtype = DType::kFloat32) {
  Batch batch;
  batch.dtype = dtype;
  std::size_t address = 1 << 30;
  for (auto count : counts) {
    Op op;
    op.name = "t";
    op.input = {at(address), dtype, {count}, 0};
    op.output = {at(address + 512), dtype, {count}, 0};
    address += 1 << 28;
    batch.ops.push_back(op);
  }
  return batch;
}

const PlanOptions kOptions{at(4096), 1 << 20, ""};

std::vector<Step> plan(const Batch& batch, PlanOptions options = kOptions, int ranks = 4) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int i = 0; i < ranks; ++i) all[static_cast<std::size_t>(i)] = i;
  return make_steps(batch, all, 1, options);
}

TEST(GpuPlan, OneTensorGoesAsItIs) {
  const auto steps = plan(sum_of({1000}));
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_THAT(steps[0].pack, IsEmpty());
  ASSERT_THAT(steps[0].calls, SizeIs(1));
  EXPECT_EQ(steps[0].calls[0].in, at(1 << 30));
  EXPECT_EQ(steps[0].calls[0].out, at((1 << 30) + 512));
  EXPECT_EQ(steps[0].calls[0].count, 1000u);
  EXPECT_EQ(steps[0].calls[0].type, kNcclFloat32);
}

TEST(GpuPlan, SmallTensorsArePackedAndLargeOnesGoBeside) {
  const auto steps = plan(sum_of({3, 100, 1 << 23, 5, 0}));
  ASSERT_THAT(steps, SizeIs(1));
  ASSERT_THAT(steps[0].pack, SizeIs(3));
  EXPECT_STREQ(steps[0].kernel, "hv_move_bytes");
  EXPECT_EQ(steps[0].pack[1].offset, 64u);  // in lines of their own
  EXPECT_EQ(steps[0].pack[1].count, 400u);
  EXPECT_EQ(steps[0].pack[2].offset, 64u + 448u);
  ASSERT_THAT(steps[0].calls, SizeIs(2));
  EXPECT_EQ(steps[0].calls[0].count, std::size_t{1} << 23);
  EXPECT_EQ(steps[0].calls[1].in, kOptions.buffer);
  EXPECT_EQ(steps[0].calls[1].count, (64u + 448u + 64u) / 4);
}

TEST(GpuPlan, WhatDoesNotFitTheBufferTakesSeveralTrips) {
  auto batch = sum_of({200'000, 200'000});
  batch.prescale = 2;
  const auto steps = plan(batch);
  std::size_t elements = 0;
  for (const Step& step : steps) {
    EXPECT_EQ(step.prescale, 2);
    for (const Slice& slice : step.pack) {
      elements += slice.count;
      EXPECT_LE(slice.offset + slice.count * 4, kOptions.buffer_bytes);
      EXPECT_EQ(slice.offset % kPlace, 0u);
    }
  }
  EXPECT_EQ(elements, 400'000u);
  EXPECT_THAT(steps, SizeIs(2));
}

TEST(GpuPlan, CompressionHalvesTheCall) {
  const auto steps = plan(sum_of({1000}), {at(4096), 1 << 20, "bf16"});
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_STREQ(steps[0].kernel, "hv_move_f32_bf16");
  EXPECT_EQ(steps[0].calls[0].type, kNcclBfloat16);
  EXPECT_EQ(steps[0].calls[0].count, 1024u);  // with what fills the last line
  auto maximum = sum_of({1000});
  maximum.reduce = ReduceOp::kMax;
  EXPECT_EQ(plan(maximum, {at(4096), 1 << 20, "bf16"})[0].calls[0].type, kNcclFloat32);
}

TEST(GpuPlan, UnevenGathersAreBroadcastsEvenOnesAreNot) {
  auto batch = sum_of({6}, DType::kInt16);
  batch.kind = OpKind::kAllgather;
  batch.counts = {{6, 6, 6, 6}};
  EXPECT_EQ(plan(batch)[0].calls[0].kind, Kind::kAllGather);
  EXPECT_EQ(plan(batch)[0].calls[0].count, 12u);
  batch.counts = {{2, 6, 0, 5}};
  const auto steps = plan(batch);
  ASSERT_THAT(steps[0].calls, SizeIs(3));
  EXPECT_EQ(steps[0].calls[1].peer, 1);
  EXPECT_EQ(steps[0].calls[1].in, batch.ops[0].input.data);
  EXPECT_EQ(steps[0].calls[1].out, at((1 << 30) + 512 + 4));
  EXPECT_EQ(steps[0].calls[2].peer, 3);
}

TEST(GpuPlan, KnowsWhatNcclCannot) {
  const auto can = [](DType dtype, ReduceOp op, int version, double scale = 1) {
    Batch batch;
    batch.dtype = dtype;
    batch.reduce = op;
    batch.postscale = scale;
    return reduction_of(batch, version).has_value();
  };
  EXPECT_TRUE(can(DType::kBFloat16, ReduceOp::kAverage, 21800, 2));
  EXPECT_TRUE(can(DType::kBool, ReduceOp::kSum, 21800));
  EXPECT_FALSE(can(DType::kInt16, ReduceOp::kSum, 22809));
  EXPECT_FALSE(can(DType::kFloat32, ReduceOp::kAdasum, 22809));
  EXPECT_FALSE(can(DType::kFloat8E5M2, ReduceOp::kSum, 22304));
  EXPECT_TRUE(can(DType::kFloat8E5M2, ReduceOp::kSum, 22400));
  EXPECT_FALSE(can(DType::kInt32, ReduceOp::kSum, 22809, 2));
}

// ---- meeting ---------------------------------------------------------------------------------

std::vector<Card> cards(int n) {
  std::vector<Card> all;
  for (int i = 0; i < n; ++i) {
    Card card;
    card.rank = i;
    card.who = "rank " + std::to_string(i) + " on h" + std::to_string(i / 2);
    card.host = std::to_string(i / 2);
    card.local_rank = i % 2;
    card.uuid = "gpu-" + std::to_string(i % 2);
    card.nccl = 22809;
    card.registers = card.scalable = true;
    card.id = "id" + std::to_string(i);
    all.push_back(card);
  }
  return all;
}

TEST(GpuMeeting, OneIdForFewSeveralForMany) {
  EXPECT_THAT(judge(cards(4), 256).ids, ::testing::ElementsAre("id0"));
  EXPECT_THAT(judge(cards(7), 3).ids, ::testing::ElementsAre("id0", "id3", "id5"));
  auto old = cards(7);
  old[6].scalable = old[2].registers = false;
  EXPECT_THAT(judge(old, 3).ids, ::testing::ElementsAre("id0"));
  EXPECT_FALSE(judge(old, 3).registers);
  EXPECT_TRUE(judge(cards(7), 3).registers);
}

TEST(GpuMeeting, OtherVersionsAreNamedWithTheirFirstRank) {
  auto skewed = cards(4);
  skewed[2].nccl = skewed[3].nccl = 22105;
  const auto error = judge(skewed, 256).error;
  EXPECT_THAT(error.text, HasSubstr("different versions of NCCL: 2.28.9 on rank 0 on h0, 2.21.5 on "
                                    "rank 2 on h1"));
}

TEST(GpuMeeting, TwoRanksOnOneDeviceAreNamedWithTheirMasks) {
  auto same = cards(4);
  same[3].uuid = "gpu-0";
  same[3].mask = "0";
  const auto text = judge(same, 256).error.text;
  EXPECT_THAT(text, HasSubstr("two ranks use the same GPU gpu-0"));
  EXPECT_THAT(text,
              HasSubstr("rank 2 on h1 (local rank 0, device 0, CUDA_VISIBLE_DEVICES not set)"));
  EXPECT_THAT(text, HasSubstr("rank 3 on h1 (local rank 1, device 0, CUDA_VISIBLE_DEVICES '0')"));
  EXPECT_EQ(judge(cards(4), 256).error.code, 0);  // the same one on two hosts is two
  same[2].shares = same[3].shares = true;         // and a new NCCL may be told to put up with it
  EXPECT_EQ(judge(same, 256).error.code, 0);
}

TEST(GpuMeeting, OtherSettingsAreNamed) {
  auto other = cards(2);
  other[1].compression = "fp16";
  EXPECT_THAT(judge(other, 256).error.text,
              HasSubstr("HVRUN_GPU_COMPRESSION none on rank 0 on h0, fp16 on rank 1 on h0"));
}

}  // namespace
}  // namespace hv::runtime::nccl
