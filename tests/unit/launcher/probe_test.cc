#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "launcher/diagnose/probe_baseline.h"
#include "launcher/diagnose/probe_pairs.h"
#include "launcher/diagnose/probe_report.h"

namespace hv::launcher::diagnose {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// ---- pairs -------------------------------------------------------------------------------------

bool always(std::size_t, std::size_t) { return true; }

// A made-up network: what each host can do; a pair gets the slower one's.
class Network {
 public:
  explicit Network(std::vector<double> speeds)
      : speeds_(std::move(speeds)), shown_(speeds_.size(), -1) {}

  std::vector<HostPair> play_round() {
    auto round = pair_up(shown_, always, met_);
    for (const auto& pair : round) {
      double speed = std::min(speeds_[pair.from], speeds_[pair.to]);
      for (auto host : {pair.from, pair.to}) shown_[host] = std::max(shown_[host], speed);
      met_.push_back(pair);
    }
    return round;
  }
  const std::vector<double>& shown() const { return shown_; }

 private:
  std::vector<double> speeds_, shown_;
  std::vector<HostPair> met_;
};

TEST(ProbePairs, EveryHostHasOnePartnerInARound) {
  for (std::size_t count = 0; count <= 20; ++count) {
    Network network(std::vector<double>(count, 100));
    for (int round = 0; round < rounds_for(count); ++round) {
      std::multiset<std::size_t> seen;
      for (const auto& [from, to] : network.play_round()) seen.insert({from, to});
      EXPECT_EQ(seen.size(), count / 2 * 2);
      EXPECT_EQ(std::set<std::size_t>(seen.begin(), seen.end()).size(), seen.size());
    }
  }
}

TEST(ProbePairs, OneSlowHostShowsAndItsPartnersDoNot) {
  for (std::size_t count = 3; count <= 20; ++count) {
    for (std::size_t slow = 0; slow < count; ++slow) {
      std::vector<double> speeds(count, 100);
      speeds[slow] = 10;
      Network network(speeds);
      for (int round = 0; round < rounds_for(count); ++round) network.play_round();
      EXPECT_EQ(network.shown(), speeds) << slow << " of " << count;
    }
  }
}

TEST(ProbePairs, WhoCannotReachTheOtherIsReachedByIt) {
  auto only_down = [](std::size_t from, std::size_t to) { return from > to; };
  EXPECT_THAT(pair_up({1, 2}, only_down, {}), ElementsAre(HostPair{1, 0}));
  auto never = [](std::size_t, std::size_t) { return false; };
  EXPECT_THAT(pair_up({1, 2, 3}, never, {}), IsEmpty());
  // Host 0 reaches 1 only, so 2 and 3 are left for each other.
  auto partly = [](std::size_t from, std::size_t to) { return from != 0 || to == 1; };
  auto pairs =
      pair_up({-1, -1, -1, -1}, [&](auto a, auto b) { return partly(a, b) && partly(b, a); }, {});
  EXPECT_THAT(pairs, ElementsAre(HostPair{0, 1}, HostPair{2, 3}));
}

TEST(ProbePairs, TwoHostsMeetAgain) { EXPECT_EQ(pair_up({5, 5}, always, {{0, 1}}).size(), 1u); }

// ---- the judge ---------------------------------------------------------------------------------

class ProbeJudge : public testing::Test {
 protected:
  void hosts(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ProbedHost host;
      host.name = "h" + std::to_string(i);
      host.hello.identity = "machine" + std::to_string(i) + " net:[1]";
      host.hello.interfaces = {
          {"eth0", "10.0.0." + std::to_string(i), false, true, 24, "veth", 10000}};
      host.address = "10.0.0." + std::to_string(i);
      host.probed.cores = 8;
      host.probed.memory_gbyte_s = 20;
      host.probed.open_files = 65536;
      host.clock_ms = 0.1;
      facts_.hosts.push_back(host);
    }
    facts_.reached.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      facts_.reached[i].resize(count);
      for (std::size_t j = 0; j < count; ++j) {
        if (i != j) facts_.reached[i][j] = reached(j);
      }
    }
  }
  static rendezvous::ReachedPeer reached(std::size_t to, std::string failure = {}) {
    rendezvous::ReachedPeer peer;
    peer.host = static_cast<std::uint32_t>(to);
    peer.failure = std::move(failure);
    return peer;
  }
  void pair(std::size_t from, std::size_t to, double out, double in, double latency = 100) {
    facts_.pairs.push_back({from, to, {latency, out, in}, {}});
  }
  // Four hosts, two rounds, all equal.
  void four() {
    hosts(4);
    pair(0, 3, 200, 200);
    pair(1, 2, 200, 200);
    pair(0, 2, 200, 200);
    pair(1, 3, 200, 200);
  }
  ProbeReport judge() { return judge_probe(facts_, wish_); }
  const Figure& figure(const ProbeReport& report, const std::string& host,
                       const std::string& name) {
    auto at = std::ranges::find(report.hosts, host, &HostVerdict::name);
    return *std::ranges::find(at->figures, name, &Figure::name);
  }

  ProbeFacts facts_;
  ProbeWish wish_;
};

TEST_F(ProbeJudge, EqualHostsPass) {
  four();
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kPass);
  EXPECT_THAT(report.outliers, IsEmpty());
  EXPECT_THAT(to_text(facts_, report, false), HasSubstr("probe of 4 hosts: pass\n"));
  EXPECT_EQ(to_text(facts_, report, true), "");
}

TEST_F(ProbeJudge, OneRoundIsEnoughWhereAllAreAlike) {
  hosts(5);
  EXPECT_FALSE(all_alike(facts_));
  pair(0, 3, 200, 200);
  pair(1, 2, 190, 210);
  EXPECT_FALSE(all_alike(facts_));  // host 4 has not been measured
  facts_.hosts[4].failure = "no agent";
  EXPECT_TRUE(all_alike(facts_));
  facts_.pairs[1].measured = {100, 130, 200};
  EXPECT_FALSE(all_alike(facts_));
  facts_.pairs[1].measured = {500, 200, 200};
  EXPECT_FALSE(all_alike(facts_));
}

TEST_F(ProbeJudge, ASlowLinkIsNamedAndItsPartnersAreNot) {
  four();
  facts_.pairs[1].measured = {100, 20, 20};
  facts_.pairs[3].measured = {100, 20, 20};  // host 1, both times
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_THAT(report.outliers, ElementsAre("h1"));
  EXPECT_EQ(report.hosts[0].name, "h1");
  EXPECT_EQ(figure(report, "h1", "bandwidth out").value, "20 Mbit/s");
  EXPECT_EQ(figure(report, "h1", "bandwidth in").verdict, Verdict::kFail);
  EXPECT_THAT(figure(report, "h1", "bandwidth out").remedy, HasSubstr("ethtool eth0"));
  EXPECT_THAT(
      to_text(facts_, report, true),
      HasSubstr("probe of 4 hosts: fail; look at h1\n"
                "  h1: fail: bandwidth out 20 Mbit/s; expected: 200 Mbit/s, as the others\n"));
}

TEST_F(ProbeJudge, AQuickLookForgivesMore) {
  four();
  facts_.pairs[1].measured = facts_.pairs[3].measured = {100, 80, 80};
  EXPECT_EQ(judge().verdict, Verdict::kFail);
  wish_.warn_below = 0.5;
  wish_.fail_below = 0.25;
  EXPECT_EQ(judge().verdict, Verdict::kWarn);
  wish_.warn_below = 0.3;
  EXPECT_EQ(judge().verdict, Verdict::kPass);
}

TEST_F(ProbeJudge, OneDirectionOnly) {
  four();
  facts_.pairs[1].measured.out_mbit = 20;  // 1 → 2
  facts_.pairs[3].measured.out_mbit = 20;  // 1 → 3
  auto report = judge();
  EXPECT_THAT(report.outliers, ElementsAre("h1"));
  EXPECT_EQ(figure(report, "h1", "bandwidth out").verdict, Verdict::kFail);
  EXPECT_EQ(figure(report, "h1", "bandwidth in").verdict, Verdict::kPass);
}

TEST_F(ProbeJudge, ALateHost) {
  four();
  facts_.pairs[0].measured.latency_us = facts_.pairs[2].measured.latency_us = 5200;
  auto report = judge();
  EXPECT_THAT(report.outliers, ElementsAre("h0"));
  EXPECT_EQ(figure(report, "h0", "latency").value, "5.2 ms");
}

TEST_F(ProbeJudge, TwoHostsAreNotComparedButMeasuredByTheWish) {
  hosts(2);
  pair(0, 1, 20, 200);
  EXPECT_EQ(judge().verdict, Verdict::kPass);
  wish_.min_mbit = 100;
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_EQ(figure(report, "h0", "bandwidth out").expected,
            "at least 100 Mbit/s (--min-bandwidth)");
  EXPECT_EQ(figure(report, "h0", "bandwidth in").verdict, Verdict::kPass);
}

TEST_F(ProbeJudge, WhatAllMissMakesNobodyOdd) {
  four();
  wish_.min_mbit = 1000;
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_THAT(report.outliers, IsEmpty());
  EXPECT_THAT(to_text(facts_, report, true), HasSubstr("fail, but all hosts alike\n"));
}

TEST_F(ProbeJudge, ARealLinkHasToBeFilled) {
  hosts(2);
  for (auto& host : facts_.hosts) host.hello.interfaces[0].kind = "physical";
  pair(0, 1, 900, 9000);
  auto report = judge();
  EXPECT_EQ(figure(report, "h0", "bandwidth out").expected, "10.0 Gbit/s, which the link has");
  EXPECT_EQ(report.verdict, Verdict::kWarn);
}

TEST_F(ProbeJudge, NatAndAPairThatBroke) {
  four();
  facts_.reached[2][0]->local_address = "172.17.0.2";
  facts_.reached[2][0]->seen_as = "10.0.0.2";
  facts_.reached[1][0]->local_address = "fe80::1%eth0";
  facts_.reached[1][0]->seen_as = "fe80::1%ens1";
  for (auto& pair : facts_.pairs) {
    if (pair.from == 0) pair.failure = "10.0.0.3:4000: the connection broke";
  }
  auto report = judge();
  EXPECT_EQ(figure(report, "h2", "NAT").value, "172.17.0.2 is seen as 10.0.0.2");
  EXPECT_EQ(figure(report, "h0", "bandwidth out").remedy, "10.0.0.3:4000: the connection broke");
  EXPECT_THAT(report.outliers, ElementsAre("h0", "h2"));
}

TEST_F(ProbeJudge, AHostThatIsNotUp) {
  four();
  facts_.hosts[2].failure = "no route to host";
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kFail);
  EXPECT_THAT(report.outliers, ElementsAre("h2"));
  EXPECT_THAT(to_text(facts_, report, false), HasSubstr("no route to host"));
}

TEST_F(ProbeJudge, AFirewallIsBlamedOnTheHostThatHasIt) {
  four();
  for (std::size_t from : {0, 1, 3}) {
    facts_.reached[from][2] = reached(2, "10.0.0.2:4000 (no answer)");
  }
  auto report = judge();
  EXPECT_THAT(report.outliers, ElementsAre("h2"));
  const auto& reach = figure(report, "h2", "reach");
  EXPECT_EQ(reach.value, "0 of 3 hosts");
  EXPECT_THAT(reach.remedy, HasSubstr("h0 → h2: 10.0.0.2:4000 (no answer); let TCP through"));
  auto json = nlohmann::json::parse(to_json(facts_, report));
  EXPECT_EQ(json["unreached"].size(), 3u);
  EXPECT_EQ(json["unreached"][0]["from"], "h0");
}

TEST_F(ProbeJudge, FewerCoresSlowMemoryAWrongClockFewFilesMissingGpu) {
  four();
  facts_.hosts[0].probed.cores = 0.5;
  facts_.hosts[1].probed.memory_gbyte_s = 5;
  facts_.hosts[2].clock_ms = -90000;
  facts_.hosts[3].probed.open_files = 256;
  for (auto& host : facts_.hosts) host.probed.gpus = {"0", "1"};
  facts_.hosts[3].probed.gpus = {"0"};
  auto report = judge();
  EXPECT_EQ(report.verdict, Verdict::kWarn);
  EXPECT_EQ(report.outliers.size(), 4u);
  EXPECT_THAT(figure(report, "h0", "cores").remedy, HasSubstr("quota"));
  EXPECT_EQ(figure(report, "h1", "memory bandwidth").verdict, Verdict::kWarn);
  EXPECT_THAT(figure(report, "h2", "clock offset").remedy, HasSubstr("NTP"));
  EXPECT_EQ(figure(report, "h3", "open files").verdict, Verdict::kWarn);
  EXPECT_EQ(figure(report, "h3", "GPUs").expected, "2, as most hosts");
}

TEST_F(ProbeJudge, ContainersOfOneMachineDisturbEachOthersMemory) {
  four();
  for (auto& host : facts_.hosts) host.hello.identity = "machine net:[" + host.name + "]";
  facts_.hosts[1].probed.memory_gbyte_s = 5;
  EXPECT_EQ(judge().verdict, Verdict::kPass);
}

rendezvous::IbDevice card() {
  rendezvous::IbPort port;
  port.device = "mlx5_0";
  port.layer = rendezvous::LinkLayer::kInfiniband;
  port.gbit = 200;
  return {"mlx5_0", "mlx5_core", "MT4123", "20", {}, {port}};
}

TEST_F(ProbeJudge, CardsAsExpected) {
  four();
  EXPECT_EQ(judge().verdict, Verdict::kPass);  // nobody has one, nobody asked
  wish_.expect = Fabric::kIb;
  EXPECT_EQ(judge().verdict, Verdict::kFail);
  for (auto& host : facts_.hosts) host.hello.cards = {card()};
  EXPECT_EQ(judge().verdict, Verdict::kPass);
  auto& port = facts_.hosts[2].hello.cards[0].ports[0];
  port.unusable = "down (Polling): no cable, or the other end is off";
  auto report = judge();
  EXPECT_THAT(report.outliers, ElementsAre("h2"));
  EXPECT_THAT(figure(report, "h2", "InfiniBand and RoCE").remedy, HasSubstr("no cable"));
  wish_.expect = Fabric::kTcp;
  EXPECT_EQ(judge().verdict, Verdict::kPass);
}

TEST_F(ProbeJudge, CardsNeedLockedMemory) {
  four();
  for (auto& host : facts_.hosts) host.hello.cards = {card()};
  facts_.hosts[1].probed.locked_memory = 64 * 1024;
  auto report = judge();
  EXPECT_THAT(report.outliers, ElementsAre("h1"));
  EXPECT_THAT(figure(report, "h1", "locked memory").remedy, HasSubstr("ulimit -l unlimited"));
}

TEST_F(ProbeJudge, JsonForTools) {
  four();
  facts_.pairs[1].measured = facts_.pairs[3].measured = {100, 20, 20};
  for (auto& host : facts_.hosts) host.hello.cards = {card()};
  facts_.ib = {{0, 1, 390, {}}, {2, 3, 190, {}}};
  auto report = judge();
  auto json = nlohmann::json::parse(to_json(facts_, report));
  EXPECT_EQ(json["verdict"], "fail");
  EXPECT_EQ(json["outliers"], nlohmann::json({"h1", "h2", "h3"}));
  EXPECT_EQ(json["hosts"][0]["host"], "h1");
  EXPECT_EQ(json["pairs"].size(), 4u);
  EXPECT_EQ(figure(report, "h0", "InfiniBand bandwidth").value, "390.0 Gbit/s");
  EXPECT_EQ(figure(report, "h0", "InfiniBand bandwidth").verdict, Verdict::kPass);
  const auto& half = figure(report, "h3", "InfiniBand bandwidth");
  EXPECT_EQ(half.verdict, Verdict::kWarn);
  EXPECT_EQ(half.expected, "400 Gbit/s, both ways together");
}

TEST_F(ProbeJudge, Matrix) {
  four();
  facts_.pairs[1].measured.out_mbit = 20;
  facts_.reached[3][0] = reached(0, "refused");
  auto plain = probe_matrix(facts_, false);
  EXPECT_THAT(plain, HasSubstr("  h0    · ■ ■\n"));
  EXPECT_THAT(plain, HasSubstr("  h1  ·   ! ■\n"));
  EXPECT_THAT(plain, HasSubstr("  h3  × ■ ·  \n"));
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_THAT(probe_matrix(facts_, true), HasSubstr("\033[31m■\033[0m"));
}

}  // namespace
}  // namespace hv::launcher::diagnose
