#include "launcher/diagnose/nic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/diagnose/nic_list.h"
#include "tests/support/tree.h"

namespace hv::launcher::diagnose {
namespace {

using rendezvous::Interface;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Interface nic(std::string name, std::string address, int prefix = 24, std::string kind = "physical",
              std::uint32_t speed = 0) {
  return {std::move(name),
          std::move(address),
          false,
          true,
          static_cast<std::uint8_t>(prefix),
          std::move(kind),
          speed};
}
Interface loopback() { return {"lo", "127.0.0.1", true, true, 8, "loopback"}; }
Interface docker() { return nic("docker0", "172.17.0.1", 16, "bridge"); }

NicHost host(std::string name, std::vector<Interface> interfaces) {
  interfaces.insert(interfaces.begin(), loopback());
  NicHost made{name, "id of " + name, std::move(interfaces), {}};
  return made;
}

NicFilter filter(std::string_view text) {
  auto parsed = parse_nic_filter(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(NicFilter{});
}

Contact reached(std::size_t from, std::size_t to, std::string from_address,
                std::string to_address) {
  return {from, to, from_address, from_address, std::move(to_address)};
}

std::vector<std::string> settings(const NicChoice& choice) {
  std::vector<std::string> all;
  for (const auto& [name, text] : choice.set) all.push_back(name + "=" + text);
  return all;
}

// ---- the filter --------------------------------------------------------------------------------

std::vector<std::string> selected(std::string_view text, const std::vector<Interface>& from) {
  auto yes = select(filter(text), from);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (yes[i]) names.push_back(from[i].name);
  }
  return names;
}

TEST(NicFilter, NamesNetworksAndExclusions) {
  std::vector<Interface> some = {nic("eth1", "10.0.0.1"), nic("eth10", "10.9.0.1"),
                                 nic("docker0", "172.17.0.1"), nic("veth12", "10.2.0.1"),
                                 nic("ib0", "fd00:9::1", 64)};
  EXPECT_THAT(selected("eth1", some), ElementsAre("eth1"));  // not eth10
  EXPECT_THAT(selected("eth", some), ElementsAre("eth1", "eth10"));
  EXPECT_THAT(selected("=eth", some), IsEmpty());
  EXPECT_THAT(selected("=eth1", some), ElementsAre("eth1"));
  EXPECT_THAT(selected("=eth1,ib", some), ElementsAre("eth1"));  // the sign is for all
  EXPECT_THAT(selected("^docker,veth", some), ElementsAre("eth1", "eth10", "ib0"));
  EXPECT_THAT(selected("^=eth1", some), Not(Contains("eth1")));
  EXPECT_THAT(selected("10.9.0.0/24", some), ElementsAre("eth10"));
  EXPECT_THAT(selected("10.0.0.0/8", some), ElementsAre("eth1", "eth10", "veth12"));
  EXPECT_THAT(selected("172.17.0.1", some), ElementsAre("docker0"));
  EXPECT_THAT(selected("fd00:9::/32,eth1", some), ElementsAre("eth1", "ib0"));
  EXPECT_THAT(selected("^172.16.0.0/12", some), Not(Contains("docker0")));
}

TEST(NicFilter, RefusesWhatIsNone) {
  for (const char* text : {"", "eth0,", "=", "^", "eth0,^docker0", "10.0.0.0/33", "10.0.0/24",
                           "fd00::/129", "eth0/24", "10.0.0.0/"}) {
    auto parsed = parse_nic_filter(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().text, HasSubstr("--nic 10.9.0.0/24")) << text;
  }
}

TEST(NicFilter, SaysWhatAHostHasInstead) {
  std::vector<Interface> some = {loopback(), nic("eth0", "10.0.0.1"), nic("eth5", "10.5.0.1")};
  some[2].up = false;
  EXPECT_EQ(why_none(filter("eth0"), some), "");
  EXPECT_EQ(why_none({}, some), "");
  EXPECT_EQ(why_none(filter("eth9"), some),
            "--nic eth9 leaves no interface here; usable are: eth0 10.0.0.1");
  EXPECT_THAT(why_none(filter("eth5"), some), HasSubstr(": eth5 is down; usable are"));
  EXPECT_THAT(why_none(filter("lo"), some), HasSubstr("lo is loopback"));
}

// ---- the choice --------------------------------------------------------------------------------

TEST(Nics, EqualBridgesOnAllHostsAreNoAddress) {
  auto plan = choose_nics({host("a", {docker(), nic("eth0", "10.9.0.1")}),
                           host("b", {docker(), nic("eno1", "10.9.0.2")}),
                           host("c", {docker(), nic("eth0", "10.9.0.3")})},
                          {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.9.0.1"));
  EXPECT_THAT(plan.hosts[1].addresses, ElementsAre("10.9.0.2"));
  EXPECT_THAT(
      settings(plan.hosts[1]),
      ElementsAre("NCCL_SOCKET_IFNAME==eno1", "GLOO_SOCKET_IFNAME=eno1", "TP_SOCKET_IFNAME=eno1"));
  EXPECT_THAT(plan.notes, Contains("a: docker0 172.17.0.1 b has the same address"));
  EXPECT_THAT(plan.notes, Contains("a: lo 127.0.0.1 loopback"));
  EXPECT_THAT(plan.notes, Contains("b: eno1 10.9.0.2 used first"));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(Nics, ABridgeThatNoOtherHostIsOn) {
  auto plan = choose_nics(
      {host("a", {docker(), nic("eth0", "10.9.0.1")}), host("b", {nic("eth0", "10.9.0.2")})}, {},
      {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.9.0.1"));
  EXPECT_THAT(plan.notes,
              Contains("a: docker0 172.17.0.1 bridge, and no other host is in its network"));
}

TEST(Nics, AHostWhoseAddressIsOnABridge) {
  auto plan = choose_nics({host("a", {nic("br0", "10.9.0.1", 24, "bridge")}),
                           host("b", {nic("br0", "10.9.0.2", 24, "bridge")})},
                          {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.9.0.1"));
}

TEST(Nics, WhatWasReachedComesFirst) {
  std::vector<NicHost> hosts = {host("a", {nic("eth0", "10.1.0.1"), nic("eth1", "10.2.0.1")}),
                                host("b", {nic("eth0", "10.1.0.2"), nic("eth1", "10.2.0.2")})};
  auto plan = choose_nics(hosts, {reached(1, 0, "10.2.0.2", "10.2.0.1")}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.2.0.1", "10.1.0.1"));
  EXPECT_THAT(plan.hosts[1].addresses, ElementsAre("10.2.0.2", "10.1.0.2"));
  EXPECT_THAT(settings(plan.hosts[0]), Contains("NCCL_SOCKET_IFNAME==eth1"));
}

TEST(Nics, ASharedNetworkBeforeOneOfTheHostAlone) {
  auto plan = choose_nics({host("a", {nic("eth0", "192.168.5.1"), nic("eth1", "10.2.0.1")}),
                           host("b", {nic("eth0", "192.168.6.1"), nic("eth1", "10.2.0.2")})},
                          {}, {});
  EXPECT_EQ(plan.hosts[0].addresses.front(), "10.2.0.1");
  EXPECT_EQ(plan.hosts[1].addresses.front(), "10.2.0.2");
}

TEST(Nics, TheFasterOfTwoSharedNetworks) {
  auto plan = choose_nics({host("a", {nic("eth0", "10.1.0.1", 24, "physical", 1000),
                                      nic("eth1", "10.2.0.1", 24, "physical", 100000)}),
                           host("b", {nic("eth0", "10.1.0.2", 24, "physical", 1000),
                                      nic("eth1", "10.2.0.2", 24, "physical", 100000)})},
                          {}, {});
  EXPECT_EQ(plan.hosts[0].addresses.front(), "10.2.0.1");
}

TEST(Nics, DataNetworkByNetworkOrName) {
  std::vector<NicHost> hosts = {host("a", {nic("eth0", "10.1.0.1"), nic("fast0", "10.2.0.1")}),
                                host("b", {nic("eth0", "10.1.0.2"), nic("fast1", "10.2.0.2")})};
  std::vector<Contact> contacts = {reached(1, 0, "10.1.0.2", "10.1.0.1")};
  auto plan = choose_nics(hosts, contacts, filter("10.2.0.0/24"));
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.2.0.1"));
  EXPECT_THAT(plan.hosts[1].addresses, ElementsAre("10.2.0.2"));
  EXPECT_THAT(settings(plan.hosts[1]), Contains("NCCL_SOCKET_IFNAME==fast1"));
  EXPECT_THAT(plan.notes, Contains("a: eth0 10.1.0.1 not asked for by --nic 10.2.0.0/24"));
  plan = choose_nics(hosts, contacts, filter("fast,eth0"));
  EXPECT_THAT(settings(plan.hosts[0]), Contains("NCCL_SOCKET_IFNAME==eth0,fast0"));
}

TEST(Nics, Ipv6Only) {
  auto plan =
      choose_nics({host("a", {nic("eth0", "fd00:9::1", 64), nic("eth0", "fe80::1%eth0", 64)}),
                   host("b", {nic("eth0", "fe80::2%eth0", 64), nic("eth0", "fd00:9::2", 64)})},
                  {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("fd00:9::1"));
  EXPECT_THAT(plan.hosts[1].addresses, ElementsAre("fd00:9::2"));
  EXPECT_THAT(plan.notes, Contains("b: eth0 fe80::2%eth0 link-local"));
}

TEST(Nics, LinkLocalOnlyIfThereIsNothingElse) {
  auto plan =
      choose_nics({host("a", {nic("eth0", "fe80::1%eth0", 64)}),
                   host("b", {nic("eth0", "fe80::2%eth0", 64), nic("x", "169.254.3.4", 16)})},
                  {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("fe80::1%eth0"));
  EXPECT_THAT(plan.hosts[1].addresses, ElementsAre("fe80::2%eth0", "169.254.3.4"));
}

TEST(Nics, TwoNamesOfOneHostMayShareItsAddresses) {
  auto a = host("a", {nic("eth0", "10.9.0.1")}), b = host("b", {nic("eth0", "10.9.0.1")});
  b.identity = a.identity;
  auto plan = choose_nics({a, b}, {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.9.0.1"));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(Nics, LoopbackOnlyWhereAllIsOneHost) {
  auto a = host("a", {}), b = host("b", {});
  b.identity = a.identity;
  auto plan = choose_nics({a, b}, {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("127.0.0.1"));
  EXPECT_THAT(plan.warnings, IsEmpty());
  b.identity = "another";
  plan = choose_nics({a, b}, {}, {});
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("a has no address that other hosts could use")));
}

TEST(Nics, DownInterfacesAreLeftOut) {
  auto down = nic("eth0", "10.9.0.1");
  down.up = false;
  auto plan = choose_nics({host("a", {down, nic("eth1", "10.8.0.1")}), host("b", {})}, {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("10.8.0.1"));
  EXPECT_THAT(plan.notes, Contains("a: eth0 10.9.0.1 down"));
}

TEST(Nics, NatIsSeen) {
  Contact contact{1, 0, "172.18.0.3", "10.9.0.2", "10.9.0.1"};
  auto plan =
      choose_nics({host("a", {nic("eth0", "10.9.0.1")}), host("b", {nic("eth0", "172.18.0.3")})},
                  {contact}, {});
  ASSERT_EQ(plan.warnings.size(), 1u);
  EXPECT_THAT(plan.warnings[0], HasSubstr("b is behind NAT: it calls itself 172.18.0.3, but its "
                                          "connection comes from 10.9.0.2"));
  EXPECT_THAT(plan.warnings[0], HasSubstr("--advertise-addr"));
}

TEST(Nics, AnAdvertisedAddressComesFirst) {
  auto a = host("a", {nic("eth0", "10.9.0.1")});
  a.advertise = "203.0.113.7";
  auto plan = choose_nics({a, host("b", {nic("eth0", "10.9.0.2")})}, {}, {});
  EXPECT_THAT(plan.hosts[0].addresses, ElementsAre("203.0.113.7", "10.9.0.1"));
}

TEST(Nics, WhatTheUserSetStays) {
  auto a = host("a", {nic("eth0", "10.9.0.1")}), b = host("b", {nic("eth1", "10.9.0.2")});
  a.set = b.set = {{"NCCL_SOCKET_IFNAME", "eth0"}};
  auto plan = choose_nics({a, b}, {}, {});
  EXPECT_THAT(settings(plan.hosts[0]),
              ElementsAre("GLOO_SOCKET_IFNAME=eth0", "TP_SOCKET_IFNAME=eth0"));
  EXPECT_THAT(plan.warnings, IsEmpty());
  EXPECT_THAT(plan.notes,
              Contains("b: NCCL_SOCKET_IFNAME=eth0 is kept, but hvrun uses eth1 there"));
  plan = choose_nics({a, b}, {}, filter("10.9.0.0/24"));
  EXPECT_THAT(plan.warnings, ElementsAre("b: NCCL_SOCKET_IFNAME=eth0 is kept, but hvrun uses eth1 "
                                         "there (--nic 10.9.0.0/24)"));
}

// ---- kinds -------------------------------------------------------------------------------------

TEST(NicList, KindsAndSpeeds) {
  test::Tree tree;
  auto type = [&](const std::string& name, const std::string& number) {
    tree.write("class/net/" + name + "/type", number + "\n");
  };
  type("lo", "772");
  for (const char* name : {"eno1", "br0", "bond0", "veth1", "dummy0", "eth0.5", "ib0"})
    type(name, "1");
  type("ib0", "32");
  type("tun0", "65534");
  tree.folder("class/net/eno1/device");
  tree.write("class/net/eno1/speed", "25000\n");
  tree.folder("class/net/br0/bridge");
  tree.write("class/net/br0/speed", "-1\n");
  tree.folder("class/net/bond0/bonding");
  tree.write("class/net/veth1/ifindex", "5\n");
  tree.write("class/net/veth1/iflink", "6\n");
  tree.write("class/net/dummy0/ifindex", "7\n");
  tree.write("class/net/dummy0/iflink", "7\n");
  tree.write("class/net/eth0.5/uevent", "DEVTYPE=vlan\nINTERFACE=eth0.5\n");
  std::vector<std::string> kinds;
  for (const char* name :
       {"lo", "eno1", "br0", "bond0", "veth1", "dummy0", "eth0.5", "ib0", "tun0", "gone"}) {
    auto one = describe_interfaces({nic(name, "10.0.0.1", 24, "")}, tree.root()).at(0);
    kinds.push_back(one.kind + (one.speed_mbit > 0 ? " " + std::to_string(one.speed_mbit) : ""));
  }
  EXPECT_THAT(kinds, ElementsAre("loopback", "physical 25000", "bridge", "bond", "veth", "virtual",
                                 "vlan", "infiniband", "tunnel", ""));
}

TEST(NicList, ReadsNcclConf) {
  auto settings =
      parse_nccl_conf("# site\nNCCL_IB_HCA = =mlx5_0  # fast\n\nnonsense\nNCCL_DEBUG=INFO");
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].key, "NCCL_IB_HCA");
  EXPECT_EQ(settings[0].value, "=mlx5_0");
  EXPECT_EQ(settings[1].value, "INFO");
}

}  // namespace
}  // namespace hv::launcher::diagnose
