#include "launcher/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using testing::HasSubstr;

std::string list_error(std::string_view text) {
  auto hosts = parse_host_list(text);
  if (hosts) return "parsed";
  EXPECT_EQ(hosts.error().code, base::Code::kUsage);
  return hosts.error().text;
}

std::string file_error(std::string_view text) {
  auto hosts = parse_hostfile(text, "f");
  return hosts ? "parsed" : hosts.error().text;
}

TEST(HostList, AllSpellings) {
  auto hosts = parse_host_list("h1,h2:4,me@h3:1,[::1]:2,me@[fe80::1%eth0],w.1.test:1, 10.0.0.7:8");
  ASSERT_TRUE(hosts) << hosts.error().text;
  ASSERT_EQ(hosts->size(), 7U);
  EXPECT_EQ((*hosts)[0].slots, 0);
  EXPECT_EQ((*hosts)[1].slots, 4);
  EXPECT_EQ((*hosts)[2].user, "me");
  EXPECT_EQ((*hosts)[3].name, "::1");
  EXPECT_EQ((*hosts)[3].slots, 2);
  EXPECT_EQ((*hosts)[4].name, "fe80::1%eth0");
  EXPECT_EQ((*hosts)[5].name, "w.1.test");
  EXPECT_EQ((*hosts)[6].name, "10.0.0.7");
}

TEST(HostList, SameHostIsMergedWhereItFirstStood) {
  auto hosts = parse_host_list("a:1,b:1,a:2,a,other@a:1");
  ASSERT_TRUE(hosts);
  ASSERT_EQ(hosts->size(), 3U);
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[2].user, "other");
}

TEST(HostList, Mistakes) {
  EXPECT_THAT(list_error("a:0"), HasSubstr("zero slots for host 'a'"));
  EXPECT_THAT(list_error("a:x"), HasSubstr("'x' is not a number of slots"));
  EXPECT_THAT(list_error("a:"), HasSubstr("'' is not a number of slots"));
  EXPECT_THAT(list_error("a:-1"), HasSubstr("'-1'"));
  EXPECT_THAT(list_error("a:99999999999999999999"), HasSubstr("not a number of slots"));
  EXPECT_THAT(list_error(""), HasSubstr("a host is missing"));
  EXPECT_THAT(list_error("a,,b"), HasSubstr("a host is missing here\n  a,,b\n    ^"));
  EXPECT_THAT(list_error("a b"), HasSubstr("separated by commas"));
  EXPECT_THAT(list_error("localhost:127.0.0.2:2"), HasSubstr("localhost,127.0.0.2:2"));
  EXPECT_THAT(list_error("fd00::2"), HasSubstr("[fd00::2]"));
  EXPECT_THAT(list_error("fd00::2:4"), HasSubstr("[fd00::2]:4 if the last number means slots"));
  EXPECT_THAT(list_error("[fd00::2"), HasSubstr("'[' without ']'"));
  EXPECT_THAT(list_error("[h1]:2"), HasSubstr("'h1' is not an IPv6 address"));
  EXPECT_THAT(list_error("[::1]2"), HasSubstr("'2' after ']'"));
  EXPECT_THAT(list_error("@h1"), HasSubstr("no user before '@'"));
  EXPECT_THAT(list_error("h1;h2"), HasSubstr("'h1;h2' cannot be the name of a host"));
  EXPECT_THAT(list_error("-x"), HasSubstr("cannot be the name of a host"));
}

TEST(Hostfile, CommentsBlanksTabsAndNoFinalNewline) {
  auto hosts = parse_hostfile(
      "# all\r\n\r\nh1 slots=2\t# two\r\n\th2:3\r\nh3\tslots = 4 port=2201  user = me\r\n[::1] "
      "slots=1",
      "f");
  ASSERT_TRUE(hosts) << hosts.error().text;
  ASSERT_EQ(hosts->size(), 4U);
  EXPECT_EQ((*hosts)[0].slots, 2);
  EXPECT_EQ((*hosts)[0].source, "f:3:1");
  EXPECT_EQ((*hosts)[1].slots, 3);
  EXPECT_EQ((*hosts)[2].slots, 4);
  EXPECT_EQ((*hosts)[2].ssh_port, 2201);
  EXPECT_EQ((*hosts)[2].user, "me");
  EXPECT_EQ((*hosts)[3].name, "::1");
}

TEST(Hostfile, SameAddressWithAnotherPortIsAnotherHost) {
  auto hosts =
      parse_hostfile("a slots=1 port=2201\na slots=1 port=2202\na slots=2 port=2201\n", "f");
  ASSERT_TRUE(hosts);
  ASSERT_EQ(hosts->size(), 2U);
  EXPECT_EQ((*hosts)[0].slots, 3);
}

TEST(Hostfile, MistakesNameLineAndColumn) {
  EXPECT_THAT(file_error("h1\nh2 slot=2\n"), HasSubstr("f:2:4: unknown setting 'slot'"));
  EXPECT_THAT(file_error("h1\nh2 slot=2\n"), HasSubstr("'slots'"));
  EXPECT_THAT(file_error("\n\nh2 slots=zwei\n"), HasSubstr("f:3:10: 'zwei'"));
  EXPECT_THAT(file_error("h1 slots=0"), HasSubstr("f:1:10: zero slots"));
  EXPECT_THAT(file_error("h1 slots="), HasSubstr("f:1:10: '' is not a number of slots"));
  EXPECT_THAT(file_error("h1:2 slots=3"), HasSubstr("two different slot counts"));
  EXPECT_THAT(file_error("h1 h2"), HasSubstr("f:1:4: 'h2' is no setting"));
  EXPECT_THAT(file_error("h1 port=70000"), HasSubstr("'70000' is not a port"));
  EXPECT_THAT(file_error("h1 max_slots=2"), HasSubstr("unknown setting 'max_slots'"));
  EXPECT_THAT(file_error("\n# nothing\n"), HasSubstr("names no host"));
  EXPECT_THAT(file_error("\th1 \tfoo=1"), HasSubstr("\n  \th1 \tfoo=1\n  \t   \t^"));
}

TEST(Hosts, WordsThatLookLikeHosts) {
  for (auto word : {"h1:2", "10.0.0.1", "::1", "[::1]:2", "me@h1", "me@h1:2", "a.b.c:16"}) {
    EXPECT_TRUE(looks_like_host(word)) << word;
  }
  for (auto word : {"train", "./train", "python3", "a:b", ":2", "h1:", "x=1:2", "user@"}) {
    EXPECT_FALSE(looks_like_host(word)) << word;
  }
}

TEST(Hosts, Local) {
  ThisMachine machine{"me", {"localhost", "box", "10.0.0.1", "::1"}, {"h2"}};
  auto local = [&](const std::string& name, const std::string& user = "", int port = 0) {
    HostSpec host;
    host.name = name;
    host.user = user;
    host.ssh_port = port;
    return is_local(host, machine);
  };
  EXPECT_TRUE(local("box"));
  EXPECT_TRUE(local("10.0.0.1", "me"));
  EXPECT_FALSE(local("box", "other"));
  EXPECT_FALSE(local("box", "", 2201));
  EXPECT_FALSE(local("127.0.0.2"));
  EXPECT_TRUE(is_known_host("h2", machine));
  EXPECT_FALSE(is_known_host("hosts", machine));
}

}  // namespace
}  // namespace hv::launcher
