#include "launcher/agent/signal_ledger.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hv::launcher {
namespace {

using namespace std::chrono_literals;
const SignalLedger::Time kStart{1000s};

std::vector<int> due(SignalLedger& ledger, SignalLedger::Time now) {
  std::vector<int> signals;
  for (const auto& request : ledger.due(now)) signals.push_back(request.signal);
  return signals;
}

TEST(SignalLedger, WhatSlurmDoesNotSendIsPassedOnAfterAMoment) {
  SignalLedger ledger;
  ledger.on_request({SIGUSR1, false}, kStart);
  EXPECT_TRUE(due(ledger, kStart).empty());
  EXPECT_GT(ledger.next(), kStart);
  EXPECT_EQ(due(ledger, ledger.next()), std::vector{SIGUSR1});
  EXPECT_EQ(ledger.next(), SignalLedger::Time::max());
}

TEST(SignalLedger, WhatSlurmHasSentBeforeOrSendsSoonAfterIsNotSentAgain) {
  SignalLedger ledger;
  ledger.on_scheduler(SIGTERM, kStart);
  ledger.on_request({SIGTERM, false}, kStart + 300ms);
  ledger.on_request({SIGUSR1, false}, kStart + 300ms);
  ledger.on_scheduler(SIGUSR1, kStart + 900ms);
  EXPECT_TRUE(due(ledger, kStart + 60s).empty());
}

TEST(SignalLedger, OtherSignalsAndLaterOnesAreOthers) {
  SignalLedger ledger;
  ledger.on_scheduler(SIGUSR1, kStart);
  ledger.on_request({SIGUSR2, false}, kStart);
  ledger.on_request({SIGUSR1, false}, kStart + 30s);
  EXPECT_EQ(due(ledger, kStart + 40s), (std::vector{SIGUSR2, SIGUSR1}));
}

TEST(SignalLedger, WhatReachesOnlyTheKeeperReachesTheRanksOnce) {
  SignalLedger ledger;
  EXPECT_TRUE(ledger.on_keeper(SIGUSR1, kStart));
  ledger.on_request({SIGUSR1, false}, kStart + 100ms);
  EXPECT_EQ(due(ledger, kStart + 1s), std::vector{SIGUSR1});
  ledger.on_request({SIGUSR1, false}, kStart + 1200ms);
  EXPECT_TRUE(due(ledger, kStart + 60s).empty());

  ledger.on_request({SIGUSR2, false}, kStart);
  EXPECT_TRUE(ledger.on_keeper(SIGUSR2, kStart + 100ms));
  EXPECT_EQ(due(ledger, kStart + 60s), std::vector{SIGUSR2});
}

TEST(SignalLedger, WhatReachesAllAndTheKeeperIsNotPassedOn) {
  SignalLedger ledger;
  ledger.on_scheduler(SIGUSR1, kStart);
  EXPECT_FALSE(ledger.on_keeper(SIGUSR1, kStart + 1ms));
  EXPECT_TRUE(ledger.on_keeper(SIGTERM, kStart));
  ledger.on_scheduler(SIGTERM, kStart + 1ms);
  EXPECT_TRUE(due(ledger, kStart + 60s).empty());
}

}  // namespace
}  // namespace hv::launcher
