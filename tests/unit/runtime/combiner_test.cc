#include "runtime/combiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Report ready(std::vector<NameId> ids) {
  Report report;
  report.ready = std::move(ids);
  return report;
}

Decisions decided(NameId id, std::string name) {
  Decisions decisions;
  BatchDecision batch;
  batch.ids = {id};
  if (!name.empty()) batch.names = {std::move(name)};
  decisions.batches.push_back(std::move(batch));
  return decisions;
}

TEST(Combiner, AnIdGoesUpOnceTheWholeHostHasIt) {
  Combiner combiner(2);
  combiner.on_report(4, ready({1, 2}));
  EXPECT_TRUE(combiner.empty());
  combiner.on_report(5, ready({2}));
  EXPECT_THAT(combiner.take().ready, ElementsAre(2));
  EXPECT_TRUE(combiner.empty());
  combiner.on_report(5, ready({1}));
  EXPECT_THAT(combiner.take().ready, ElementsAre(1));
}

TEST(Combiner, OtherParametersUnderAKnownNameSplitTheHost) {
  Combiner combiner(3);
  combiner.on_decisions(decided(1, "w"));
  combiner.on_report(4, ready({1}));
  Report fresh;
  fresh.fresh.push_back({5, "w", Signature{}, {}});
  combiner.on_report(5, fresh);
  combiner.on_report(6, ready({1}));
  auto out = combiner.take();
  EXPECT_THAT(out.ready, IsEmpty());
  ASSERT_THAT(out.known, SizeIs(2));
  EXPECT_EQ(out.known[0].rank, 4);
  EXPECT_EQ(out.known[1].rank, 6);
  EXPECT_THAT(out.fresh, SizeIs(1));
  // After the decision the host is one again.
  combiner.on_decisions(decided(1, ""));
  for (int rank : {4, 5, 6}) combiner.on_report(rank, ready({1}));
  EXPECT_THAT(combiner.take().ready, ElementsAre(1));
}

TEST(Combiner, PartialAnnouncementsAreToldOnDemand) {
  Combiner combiner(2);
  combiner.on_report(4, ready({7}));
  combiner.tell_partial();
  auto out = combiner.take();
  ASSERT_THAT(out.known, SizeIs(1));
  EXPECT_EQ(out.known[0].rank, 4);
  combiner.on_report(5, ready({7}));
  out = combiner.take();
  ASSERT_THAT(out.known, SizeIs(1));
  EXPECT_EQ(out.known[0].rank, 5);
}

TEST(Combiner, ForgottenIdsStartAfresh) {
  Combiner combiner(2);
  combiner.on_report(4, ready({7}));
  Decisions forget;
  forget.forgotten = {7};
  combiner.on_decisions(forget);
  combiner.on_report(5, ready({7}));
  EXPECT_TRUE(combiner.empty());
}

}  // namespace
}  // namespace hv::runtime
