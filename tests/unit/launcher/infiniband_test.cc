#include "launcher/diagnose/infiniband.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/diagnose/ib_advice.h"
#include "tests/support/ib_tree.h"

namespace hv::launcher::diagnose {
namespace {

using test::down;
using test::FakeGid;
using test::FakePort;
using test::IbTree;
using test::roce;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> settings(const IbAdvice& advice) {
  std::vector<std::string> all;
  for (const auto& [name, text] : advice.set) all.push_back(name + "=" + text);
  return all;
}

IbAdvice advise(const IbTree& tree, const IbWish& wish = {}) {
  return advise(read_ib_devices(tree.root()), wish);
}

FakePort with_gids(FakePort port, std::vector<FakeGid> gids) {
  port.gids = std::move(gids);
  return port;
}

// ---- reading -----------------------------------------------------------------------------------

TEST(Infiniband, ConnectXHdr) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:16:02.0/0000:17:00.0", 0, {FakePort{}});
  auto devices = read_ib_devices(tree.root());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].driver, "mlx5_core");
  EXPECT_EQ(devices[0].type, "MT4123");
  EXPECT_EQ(devices[0].place.address, "0000:17:00.0");
  EXPECT_EQ(devices[0].place.numa_node, 0);
  EXPECT_THAT(devices[0].place.bridges, ElementsAre("pci0000:16", "0000:16:02.0", "0000:17:00.0"));
  const auto& port = devices[0].ports.at(0);
  EXPECT_EQ(port.name(), "mlx5_0:1");
  EXPECT_EQ(port.layer, LinkLayer::kInfiniband);
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.phys_state, "LinkUp");
  EXPECT_EQ(port.gbit, 200);
  EXPECT_EQ(port.lid, 5);
  EXPECT_EQ(port.unusable, "");
  ASSERT_EQ(port.gids.size(), 1u);
  EXPECT_EQ(port.gids[0].type, GidType::kInfiniband);
  EXPECT_EQ(port.gids[0].scope, GidScope::kLinkLocal);
}

TEST(Infiniband, RoceTableWithHoles) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 1,
            {with_gids(roce("eth2"), {{0, test::kLinkLocal, "IB/RoCE v1"},
                                      {4, test::kMapped, "RoCE v2"},
                                      {9, test::kUla, "RoCE v2"},
                                      {12, test::kUla, "IB/RoCE v1"}})});
  auto port = read_ib_devices(tree.root()).at(0).ports.at(0);
  std::vector<std::string> gids;
  for (const auto& gid : port.gids) {
    gids.push_back(std::to_string(gid.index) + " " + std::string(to_string(gid.type)) + " " +
                   gid.address + " " + gid.netdev);
  }
  EXPECT_THAT(gids,
              ElementsAre("0 RoCE v1 fe80::e42:a1ff:fe12:3456 eth2", "4 RoCE v2 10.9.0.3 eth2",
                          "9 RoCE v2 fd00:9::3 eth2", "12 RoCE v1 fd00:9::3 eth2"));
  EXPECT_EQ(port.netdev, "eth2");
  EXPECT_EQ(port.gids[2].scope, GidScope::kIpv6);
}

TEST(Infiniband, UnusablePortsSayWhy) {
  IbTree tree;
  FakePort no_sm;
  no_sm.sm_lid = 0;
  FakePort init;
  init.state = "2: INIT";
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {FakePort{}, down(FakePort{})});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {down(FakePort{}, "3: Disabled")});
  tree.card("mlx5_2", "pci0000:16/0000:19:00.0", 0, {no_sm, init});
  tree.card("mlx5_3", "pci0000:16/0000:1a:00.0", 0, {with_gids(roce("eth3"), {})});
  std::vector<std::string> why;
  for (const auto& device : read_ib_devices(tree.root())) {
    for (const auto& port : device.ports) why.push_back(port.unusable);
  }
  EXPECT_THAT(why, ElementsAre("", HasSubstr("down (Polling)"), "disabled", HasSubstr("SM lid 0"),
                               HasSubstr("INIT: no subnet manager"), "its GID table is empty"));
  EXPECT_THAT(advise(tree).ports, ElementsAre("mlx5_0:1"));
  EXPECT_THAT(advise(tree).notes, Contains(HasSubstr("mlx5_1:1 is left out: disabled")));
}

TEST(Infiniband, EfaAndNone) {
  IbTree none;
  EXPECT_THAT(read_ib_devices(none.root()), IsEmpty());
  EXPECT_THAT(settings(advise(none)), IsEmpty());
  EXPECT_EQ(describe_ports({}, {}).at(0).answer, Answer::kNo);
  IbTree efa;
  FakePort port;
  port.layer = "Unspecified";
  port.lid = port.sm_lid = 0;
  efa.card("rdmap0s6", "pci0000:00/0000:00:06.0", -1, {port}, "efa");
  auto advice = advise(efa);
  EXPECT_THAT(settings(advice), IsEmpty());
  EXPECT_THAT(advice.notes, ElementsAre(HasSubstr("aws-ofi-nccl")));
}

TEST(Infiniband, ManyCardsComeInTheOrderOfTheirNumbers) {
  IbTree tree;
  for (int i : {10, 2, 0}) {
    tree.card("mlx5_" + std::to_string(i), "pci0000:16/0000:17:00." + std::to_string(i), 0,
              {FakePort{}});
  }
  EXPECT_THAT(advise(tree).ports, ElementsAre("mlx5_0:1", "mlx5_2:1", "mlx5_10:1"));
}

TEST(Infiniband, DistanceToGpus) {
  IbTree tree;
  std::string below_switch = "pci0000:16/0000:16:02.0/0000:17:00.0/";
  tree.card("mlx5_0", below_switch + "0000:18:00.0/0000:19:00.0", 0, {FakePort{}});
  tree.gpu(below_switch + "0000:18:08.0/0000:1a:00.0", 0);  // the same switch
  tree.gpu(below_switch + "0000:18:10.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0", 0);
  tree.gpu("pci0000:16/0000:16:03.0/0000:30:00.0", 0);  // the same host bridge
  tree.gpu("pci0000:40/0000:40:02.0/0000:41:00.0", 0);  // the same node
  tree.gpu("pci0000:80/0000:80:02.0/0000:81:00.0", 1);
  tree.gpu("pci0000:90/0000:91:00.0", 1, "0x8086");  // no GPU that computes
  auto devices = read_ib_devices(tree.root());
  std::vector<std::string> distances;
  for (const auto& gpu : read_gpus(tree.root())) {
    distances.push_back(gpu.address + " " +
                        std::string(to_string(distance(devices[0].place, gpu))));
  }
  EXPECT_THAT(distances, ElementsAre("0000:1a:00.0 PIX", "0000:1d:00.0 PXB", "0000:30:00.0 PHB",
                                     "0000:41:00.0 NODE", "0000:81:00.0 SYS"));
  auto lines = describe_ports(devices, read_gpus(tree.root()));
  EXPECT_THAT(lines.at(0).reason, HasSubstr("0000:19:00.0, NUMA node 0, GPU 0000:1a:00.0 PIX"));
  EXPECT_EQ(lines.at(1).name, "mlx5_0:1 GID 0");
}

// ---- advice for one host -----------------------------------------------------------------------

TEST(IbAdvice, PureInfinibandNeedsNoGidIndex) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {FakePort{}});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {FakePort{}, down(FakePort{})});
  EXPECT_THAT(settings(advise(tree)), ElementsAre("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"));
}

TEST(IbAdvice, RoceTakesTheRoutableVersion2OfTheFamily) {
  IbTree tree;
  auto port = roce("eth2");
  port.gids.push_back({4, test::kUla, "IB/RoCE v1"});
  port.gids.push_back({6, test::kUla, "RoCE v2"});
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {port});
  EXPECT_THAT(settings(advise(tree)), ElementsAre("NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_GID_INDEX=3"));
  IbWish ipv6;
  ipv6.ipv6 = true;
  EXPECT_THAT(settings(advise(tree, ipv6)), Contains("NCCL_IB_GID_INDEX=6"));
}

TEST(IbAdvice, UlaOnlyTable) {
  IbTree tree;
  tree.card(
      "mlx5_0", "pci0000:16/0000:17:00.0", 0,
      {with_gids(roce("eth2"), {{1, test::kLinkLocal, "RoCE v2"}, {5, test::kUla, "RoCE v2"}})});
  auto advice = advise(tree);
  EXPECT_EQ(advice.gid_index, 5);
  EXPECT_THAT(advice.notes, ElementsAre("no RoCE v2 GID is IPv4; index 5 is IPv6"));
}

TEST(IbAdvice, OnlyLinkLocalOrVersion1IsNoRoute) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0,
            {with_gids(roce("eth2"), {{0, test::kLinkLocal, "IB/RoCE v1"},
                                      {1, test::kLinkLocal, "RoCE v2"},
                                      {2, test::kMapped, "IB/RoCE v1"}})});
  auto advice = advise(tree);
  EXPECT_THAT(settings(advice), IsEmpty());
  EXPECT_THAT(advice.notes, ElementsAre(HasSubstr("give eth2 an address")));
}

TEST(IbAdvice, OneIndexForAllPorts) {
  IbTree tree;
  auto shifted = with_gids(roce("eth4"), {{1, test::kLinkLocal, "RoCE v2"},
                                          {3, test::kMapped, "IB/RoCE v1"},
                                          {5, test::kMapped, "RoCE v2"}});
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {roce("eth2")});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {roce("eth3")});
  tree.card("mlx5_2", "pci0000:16/0000:19:00.0", 0, {shifted});
  auto advice = advise(tree);
  EXPECT_THAT(settings(advice),
              ElementsAre("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX=3"));
  EXPECT_THAT(
      advice.notes,
      ElementsAre("mlx5_2:1 is left out: GID index 3, which the others use, is RoCE v1 on it"));
}

TEST(IbAdvice, TheFasterKindWins) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {FakePort{}});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {roce("eth2", "25 Gb/sec (1X EDR)")});
  auto advice = advise(tree);
  EXPECT_THAT(advice.ports, ElementsAre("mlx5_0:1"));
  EXPECT_THAT(advice.notes, ElementsAre(HasSubstr("most bandwidth is on InfiniBand")));
  IbTree two;
  two.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {roce("eth2", "400 Gb/sec (4X NDR)")});
  two.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {roce("eth3", "25 Gb/sec (1X EDR)")});
  EXPECT_THAT(advise(two).notes, ElementsAre(HasSubstr("25 Gbit/s, others have 400 Gbit/s")));
}

TEST(IbAdvice, OnlyPortsOfTheInterfacesAskedFor) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {roce("eth2")});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {roce("eth3")});
  IbWish wish;
  wish.netdevs = {"eth3"};
  EXPECT_THAT(advise(tree, wish).ports, ElementsAre("mlx5_1:1"));
}

TEST(IbAdvice, WhatTheUserSetStays) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {roce("eth2")});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {down(roce("eth3"))});
  IbWish wish;
  wish.user = {{"NCCL_IB_HCA", "mlx5"}, {"NCCL_IB_GID_INDEX", "0"}};
  auto advice = advise(tree, wish);
  EXPECT_THAT(settings(advice), IsEmpty());
  EXPECT_THAT(advice.conflicts,
              Contains("NCCL_IB_GID_INDEX=0 (kept) is RoCE v1 on mlx5_0:1; index 3 would do"));
  EXPECT_THAT(advice.conflicts,
              Contains(HasSubstr("NCCL_IB_HCA=mlx5 (kept) names mlx5_1:1, which is "
                                 "unusable: down (Polling)")));
  wish.user = {{"NCCL_IB_HCA", "=mlx5_7"}};
  advice = advise(tree, wish);
  EXPECT_THAT(settings(advice), ElementsAre("NCCL_IB_GID_INDEX=3"));
  EXPECT_THAT(advice.conflicts, Contains("NCCL_IB_HCA==mlx5_7 (kept) names no card of this host"));
  wish.user = {{"NCCL_IB_DISABLE", "1"}};
  advice = advise(tree, wish);
  EXPECT_THAT(settings(advice), IsEmpty());
  EXPECT_THAT(advice.conflicts,
              Contains("NCCL_IB_DISABLE=1 (kept) leaves usable cards idle: mlx5_0:1"));
}

TEST(IbAdvice, ExclusionByTheUserIsNoConflict) {
  IbTree tree;
  tree.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {FakePort{}});
  tree.card("mlx5_1", "pci0000:16/0000:18:00.0", 0, {down(FakePort{})});
  IbWish wish;
  wish.user = {{"NCCL_IB_HCA", "^mlx5_1"}};
  EXPECT_THAT(advise(tree, wish).notes, ElementsAre(HasSubstr("mlx5_1:1 is left out: down")));
}

// ---- several hosts -----------------------------------------------------------------------------

std::vector<IbDevice> host_with(int cards, const std::string& rate = "200 Gb/sec (4X HDR)") {
  IbTree tree;
  FakePort port;
  port.rate = rate;
  for (int i = 0; i < cards; ++i) {
    tree.card("mlx5_" + std::to_string(i), "pci0000:16/0000:17:00." + std::to_string(i), 0, {port});
  }
  return read_ib_devices(tree.root());
}

TEST(IbComparison, EqualHosts) {
  auto both = compare_cards({{"h1", host_with(2), {}}, {"h2", host_with(2), {}}});
  EXPECT_THAT(both.warnings, IsEmpty());
  EXPECT_THAT(settings(both.advice[1]), ElementsAre("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"));
}

TEST(IbComparison, TwoCardsAgainstOne) {
  auto both =
      compare_cards({{"h1", host_with(2), {}}, {"h2", host_with(1), {}}, {"h3", host_with(2), {}}});
  EXPECT_THAT(both.warnings, ElementsAre("hosts have unequal cards\n"
                                         "  2 ports, 200 Gbit/s InfiniBand  on h1,h3\n"
                                         "  1 port, 200 Gbit/s InfiniBand  on h2",
                                         "proposed is what all have in common: 1 of each host"));
  for (const auto& advice : both.advice) {
    EXPECT_THAT(settings(advice), ElementsAre("NCCL_IB_HCA==mlx5_0:1"));
  }
}

TEST(IbComparison, OtherNamesOnEachHost) {
  IbTree tree;
  tree.card("ibp23s0", "pci0000:16/0000:17:00.0", 0, {FakePort{}});
  auto both = compare_cards({{"h1", host_with(2), {}}, {"h2", read_ib_devices(tree.root()), {}}});
  EXPECT_THAT(settings(both.advice[0]), ElementsAre("NCCL_IB_HCA==mlx5_0:1"));
  EXPECT_THAT(settings(both.advice[1]), ElementsAre("NCCL_IB_HCA==ibp23s0:1"));
}

TEST(IbComparison, RatesAndAHostWithout) {
  auto rates = compare_cards({{"h1", host_with(1), {}}, {"h2", host_with(1, "100 Gb/sec"), {}}});
  EXPECT_THAT(rates.warnings.at(0), HasSubstr("100 Gbit/s InfiniBand  on h2"));
  auto without = compare_cards({{"h1", host_with(1), {}}, {"h2", {}, {}}});
  EXPECT_THAT(without.warnings, Contains(HasSubstr("NCCL would wait for ever")));
  EXPECT_THAT(settings(without.advice[0]), IsEmpty());
}

TEST(IbComparison, DifferentGidTables) {
  IbTree usual, shifted;
  usual.card("mlx5_0", "pci0000:16/0000:17:00.0", 0, {roce("eth2")});
  shifted.card("mlx5_0", "pci0000:16/0000:17:00.0", 0,
               {with_gids(roce("eno1"), {{7, test::kMapped, "RoCE v2"}})});
  auto both = compare_cards(
      {{"h1", read_ib_devices(usual.root()), {}}, {"h2", read_ib_devices(shifted.root()), {}}});
  EXPECT_THAT(both.warnings, ElementsAre(HasSubstr("each gets its own index\n"
                                                   "  GID index 3  on h1\n  GID index 7  on h2")));
  EXPECT_THAT(settings(both.advice[1]), Contains("NCCL_IB_GID_INDEX=7"));
}

}  // namespace
}  // namespace hv::launcher::diagnose
