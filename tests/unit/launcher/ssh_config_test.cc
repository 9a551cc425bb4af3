#include "launcher/ssh_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "launcher/ssh_pattern.h"

namespace hv::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SshConfig : public testing::Test {
 protected:
  SshConfig() {
    home_.user = "me";
    home_.directory = "/home/me";
    home_.host_name = "desk.example.org";
    home_.uid = 1000;
    home_.read = [this](const std::string& path) -> std::optional<std::string> {
      auto found = files_.find(path);
      return found == files_.end() ? std::nullopt : std::optional(found->second);
    };
    home_.glob = [this](const std::string& pattern) {
      std::vector<std::string> paths;
      for (const auto& [path, text] : files_) {
        if (matches_pattern(pattern, path)) paths.push_back(path);
      }
      return paths;
    };
    home_.getenv = [this](const char* name) -> std::optional<std::string> {
      auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }

  std::string& config() { return files_["/home/me/.ssh/config"]; }
  std::string& system() { return files_["/etc/ssh/ssh_config"]; }
  SshTarget target(const std::string& name) {
    HostSpec host;
    host.name = name;
    return target(host);
  }
  SshTarget target(const HostSpec& host) {
    auto made = make_ssh_target(host, flags_, home_);
    EXPECT_TRUE(made) << made.error().text;
    return made ? *made : SshTarget{};
  }

  SshHome home_;
  SshFlags flags_;
  std::map<std::string, std::string> files_, variables_;
};

TEST_F(SshConfig, WithoutAnyFileItIsWhatSshDoes) {
  auto t = target("h1");
  EXPECT_EQ(t.host_name, "h1");
  EXPECT_EQ(t.user, "me");
  EXPECT_EQ(t.port, 22);
  EXPECT_EQ(t.agent_socket, "");
  EXPECT_EQ(t.host_keys, HostKeyPolicy::kStrict);
  EXPECT_FALSE(t.connect_timeout);
  EXPECT_THAT(t.identity_files, IsEmpty());
  EXPECT_THAT(
      t.default_identity_files,
      ElementsAre("/home/me/.ssh/id_rsa", "/home/me/.ssh/id_ecdsa", "/home/me/.ssh/id_ed25519"));
  EXPECT_THAT(t.user_known_hosts,
              ElementsAre("/home/me/.ssh/known_hosts", "/home/me/.ssh/known_hosts2"));
  EXPECT_EQ(t.client_needed, "");
  EXPECT_EQ(t.by_hand(), "ssh h1 true");
}

TEST_F(SshConfig, TheFirstValueWinsFlagsBeforeUserBeforeSystem) {
  config() = "Host h1\n  Port 2201\n  User one\nHost *\n  Port 2202\n  User two\n";
  system() = "Host *\n  User three\n  ConnectTimeout 7\n";
  auto t = target("h1");
  EXPECT_EQ(t.port, 2201);
  EXPECT_EQ(t.user, "one");
  EXPECT_EQ(t.connect_timeout, std::chrono::seconds(7));
  EXPECT_EQ(target("h2").port, 2202);
  EXPECT_EQ(target("h2").user, "two");

  flags_.port = 2300;
  EXPECT_EQ(target("h1").port, 2300);
  HostSpec own;
  own.name = "h1";
  own.user = "boss";
  own.ssh_port = 2400;
  EXPECT_EQ(target(own).port, 2400);
  EXPECT_EQ(target(own).user, "boss");
  EXPECT_EQ(target(own).by_hand(), "ssh -p 2400 boss@h1 true");
}

TEST_F(SshConfig, OptionsOfTheCommandLineComeFirstAndNoneIsLost) {
  config() = "ConnectTimeout 9\nStrictHostKeyChecking no\n";
  flags_.options = {"ConnectTimeout=3", "User = you", "Ciphers aes128-ctr"};
  auto t = target("h1");
  EXPECT_EQ(t.connect_timeout, std::chrono::seconds(3));
  EXPECT_EQ(t.user, "you");
  EXPECT_EQ(t.host_keys, HostKeyPolicy::kOff);
  EXPECT_THAT(t.algorithms,
              ElementsAre(std::pair<std::string, std::string>("ciphers", "aes128-ctr")));
  EXPECT_EQ(t.by_hand(), "ssh -o ConnectTimeout=3 -o 'User = you' -o 'Ciphers aes128-ctr' h1 true");
  flags_.options = {"Justaword"};
  HostSpec host;
  host.name = "h1";
  auto made = make_ssh_target(host, flags_, home_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, base::Code::kUsage);
  EXPECT_THAT(made.error().text, HasSubstr("Justaword"));
}

TEST_F(SshConfig, PatternsExceptionsAndQuotes) {
  config() =
      "# comment\n\nHost node-* !node-9 \"odd name\"\n\tUser=cluster\r\n"
      "Host ?x\n  Port = 23\n";
  EXPECT_EQ(target("node-1").user, "cluster");
  EXPECT_EQ(target("node-9").user, "me");
  EXPECT_EQ(target("odd name").user, "cluster");
  EXPECT_EQ(target("ax").port, 23);
  EXPECT_EQ(target("abx").port, 22);
}

TEST_F(SshConfig, NamesAndTokens) {
  config() =
      "Host short\n  HostName %h.cluster.org\n  IdentityFile ~/.ssh/keys/%h_%r_%p\n"
      "  IdentityFile \"${KEYS}/my key\"\n  UserKnownHostsFile %d/known /etc/known_%u\n";
  variables_["KEYS"] = "/keys";
  auto t = target("short");
  EXPECT_EQ(t.name, "short");
  EXPECT_EQ(t.host_name, "short.cluster.org");
  EXPECT_THAT(t.identity_files,
              ElementsAre("/home/me/.ssh/keys/short.cluster.org_me_22", "/keys/my key"));
  EXPECT_THAT(t.user_known_hosts, ElementsAre("/home/me/known", "/etc/known_me"));
  EXPECT_EQ(t.client_needed, "");
  config() = "IdentityFile ${NO_SUCH}/key\n";
  EXPECT_NE(target("h1").client_needed, "");
  config() = "IdentityFile %Z\n";
  EXPECT_NE(target("h1").client_needed, "");
}

TEST_F(SshConfig, TheAgentsSocket) {
  variables_["SSH_AUTH_SOCK"] = "/run/agent";
  variables_["OTHER"] = "/run/other";
  EXPECT_EQ(target("h1").agent_socket, "/run/agent");
  config() =
      "Host a\n IdentityAgent none\nHost b\n IdentityAgent ~/sock\nHost c\n IdentityAgent $OTHER\n";
  EXPECT_EQ(target("a").agent_socket, "");
  EXPECT_EQ(target("b").agent_socket, "/home/me/sock");
  EXPECT_EQ(target("c").agent_socket, "/run/other");
}

TEST_F(SshConfig, IncludeFollowsTheBlockItIsIn) {
  config() = "Host h1\n  Include parts/*\nHost *\n  Port 3\n";
  files_["/home/me/.ssh/parts/a"] = "User inc\nHost h9\n  Port 1\n";
  files_["/home/me/.ssh/parts/b"] = "Port 2\n";
  EXPECT_EQ(target("h1").user, "inc");
  EXPECT_EQ(target("h1").port, 2);
  EXPECT_EQ(target("h2").user, "me");
  EXPECT_EQ(target("h2").port, 3);
  files_["/home/me/.ssh/parts/b"] = "Include parts/b\n";
  EXPECT_THAT(target("h1").client_needed, HasSubstr("nested"));
}

TEST_F(SshConfig, Match) {
  config() =
      "Match originalhost h1 user me\n  Port 1\n"
      "Match host *.org !localuser root\n  Port 2\n"
      "Match final host h3\n  Port 3\n"
      "Match all\n  ConnectTimeout 5\n";
  EXPECT_EQ(target("h1").port, 1);
  EXPECT_EQ(target("x.org").port, 2);
  EXPECT_EQ(target("h3").port, 3);
  EXPECT_EQ(target("h3").connect_timeout, std::chrono::seconds(5));
  EXPECT_EQ(target("h3").client_needed, "");
  config() = "Match exec \"test -e /x\"\n  Port 4\n";
  EXPECT_THAT(target("h1").client_needed, HasSubstr("exec"));
  config() = "Match originalhost other exec \"test -e /x\"\n  Port 4\n";
  EXPECT_EQ(target("h1").client_needed, "");
}

TEST_F(SshConfig, WhatOnlyTheClientCanDo) {
  for (const char* line :
       {"ProxyJump gate", "ProxyCommand nc %h %p", "HostKeyAlias x", "CertificateFile ~/c",
        "ControlPath ~/%C", "CanonicalizeHostname yes", "NoSuchKeyword 1", "Port many",
        "ConnectTimeout soon", "StrictHostKeyChecking maybe"}) {
    config() = std::string("Host h1\n  ") + line + "\n";
    EXPECT_NE(target("h1").client_needed, "") << line;
    EXPECT_EQ(target("h2").client_needed, "") << line;
  }
  for (const char* line :
       {"ProxyJump none", "ForwardAgent yes", "ServerAliveInterval 30", "CanonicalizeHostname no",
        "GSSAPIAuthentication yes", "IgnoreUnknown Foo*,Bar\nFooBar 1"}) {
    config() = std::string(line) + "\n";
    EXPECT_EQ(target("h1").client_needed, "") << line;
  }
  config() = "GSSAPIAuthentication yes\n";
  variables_["KRB5CCNAME"] = "FILE:/tmp/x";
  EXPECT_NE(target("h1").client_needed, "");
  config() = "";
  files_["/home/me/.ssh/id_rsa-cert.pub"] = "";
  EXPECT_THAT(target("h1").client_needed, HasSubstr("certificate"));
}

TEST(SshPattern, Wildcards) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbYbc"));
  EXPECT_FALSE(matches_pattern("a*b*c", "aXbYb"));
  EXPECT_TRUE(matches_pattern("h?", "h1"));
  EXPECT_FALSE(matches_pattern("h?", "h"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("**a", "a"));
  EXPECT_TRUE(matches_patterns({"h*", "!h9"}, "h1"));
  EXPECT_FALSE(matches_patterns({"h*", "!h9"}, "h9"));
  EXPECT_FALSE(matches_patterns({"!h9"}, "h1"));
}

TEST(SshPattern, Times) {
  using std::chrono::seconds;
  EXPECT_EQ(parse_ssh_time("10"), seconds(10));
  EXPECT_EQ(parse_ssh_time("1m30s"), seconds(90));
  EXPECT_EQ(parse_ssh_time("2H"), seconds(7200));
  EXPECT_FALSE(parse_ssh_time(""));
  EXPECT_FALSE(parse_ssh_time("m"));
  EXPECT_FALSE(parse_ssh_time("5x"));
  EXPECT_FALSE(parse_ssh_time("-1"));
}

TEST(SshPattern, Lines) {
  EXPECT_EQ(parse_ssh_line("  # x")->keyword, "");
  EXPECT_EQ(parse_ssh_line("")->keyword, "");
  auto line = parse_ssh_line("  HostName\t=  \"a b\"c d # tail");
  EXPECT_EQ(line->keyword, "hostname");
  EXPECT_THAT(line->words, ElementsAre("a bc", "d"));
  EXPECT_THAT(parse_ssh_line("K a=b")->words, ElementsAre("a=b"));
  EXPECT_THAT(parse_ssh_line(R"(K "a\"b\\")")->words, ElementsAre("a\"b\\"));
  EXPECT_FALSE(parse_ssh_line("K \"a"));
}

}  // namespace
}  // namespace hv::launcher
