#include "runtime/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;

TEST(Negotiation, ReportSurvivesTheWire) {
  Report report;
  report.ready = {9, 4, 70000};
  report.known = {{3, 17, {128}}};
  Signature s;
  s.kind = OpKind::kAllgather;
  s.shape = {-1, 3};
  s.prescale = 0.25;
  report.fresh = {{2, "layer.weight", s, {5}}};
  report.left = {1};
  report.heard = true;
  auto back = decode_report(encode(report));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ready, report.ready);
  EXPECT_THAT(back->known.at(0).rows, ElementsAre(128));
  EXPECT_EQ(back->fresh.at(0).name, "layer.weight");
  EXPECT_EQ(back->fresh.at(0).signature, s);
  EXPECT_THAT(back->left, ElementsAre(1));
  EXPECT_TRUE(back->heard);
}

TEST(Negotiation, DecisionsSurviveTheWire) {
  Decisions decisions;
  BatchDecision batch;
  batch.sequence = 12;
  batch.ids = {3, 4};
  batch.names = {"", "new"};
  batch.rows = {1, 2};
  batch.set = 3;
  batch.signatures = {Signature{}, Signature{}};
  batch.signatures[1].shape = {7};
  decisions.batches.push_back(batch);
  batch.error.code = 6;
  batch.error.text = "differs";
  decisions.batches.push_back(batch);
  decisions.forgotten = {1};
  decisions.left = {0};
  auto back = decode_decisions(encode(decisions));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->batches.size(), 2u);
  EXPECT_EQ(back->batches[0].names, batch.names);
  EXPECT_EQ(back->batches[0].set, 3);
  EXPECT_EQ(back->batches[0].signatures, batch.signatures);
  EXPECT_EQ(back->batches[1].error.text, "differs");
  EXPECT_THAT(back->forgotten, ElementsAre(1));
}

TEST(Negotiation, AStepSeenBeforeCostsBits) {
  Report report;
  report.ready.resize(1000);
  std::iota(report.ready.begin(), report.ready.end(), 5000);
  const auto bytes = encode(report);
  EXPECT_LT(bytes.size(), 170u);
  EXPECT_EQ(decode_report(bytes)->ready, report.ready);
}

TEST(Negotiation, ScatteredIdsStayAList) {
  Report report;
  report.ready = {1, 1000000, 4000000};
  const auto bytes = encode(report);
  EXPECT_LT(bytes.size(), 40u);
  EXPECT_EQ(decode_report(bytes)->ready, report.ready);
}

TEST(Negotiation, CutMessagesAreRefused) {
  Report report;
  report.ready = {1, 2, 3};
  report.fresh = {{0, "a", Signature{}, {0}}};
  const auto bytes = encode(report);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode_report(base::ByteSpan(bytes).first(n))) << n;
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(decode_report(longer));
}

TEST(Negotiation, AllgatherAgreesOnEverythingButRows) {
  Op op;
  op.kind = OpKind::kAllgather;
  op.input.shape = {5, 3};
  const Signature s = signature_of(op);
  op.input.shape = {9, 3};
  EXPECT_TRUE(matches(s, op));
  EXPECT_THAT(rows_of(op), ElementsAre(9));
  op.input.shape = {9, 4};
  EXPECT_FALSE(matches(s, op));
  op.input.shape = {9, 3, 1};
  EXPECT_FALSE(matches(s, op));
}

}  // namespace
}  // namespace hv::runtime
