#include "launcher/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/agent/rank_environment.h"

namespace hv::launcher {
namespace {

using rendezvous::KeyValue;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const Variables kOwn = {{"PATH", "/bin"},
                        {"HOME", "/root"},
                        {"XDG_RUNTIME_DIR", "/run"},
                        {"A", "1"},
                        {"NCCL_DEBUG", "x"},
                        {"NCCL_ALGO", "y"},
                        {"CUDA_VISIBLE_DEVICES", "0"},
                        {"HVRUN_SECRET", "old"},
                        {"PYTHONUNBUFFERED", ""}};

std::vector<std::string> names(const Variables& variables) {
  std::vector<std::string> result;
  for (const auto& v : variables) result.push_back(v.key);
  return result;
}

std::string value(const Variables& variables, std::string_view name) {
  for (const auto& v : variables) {
    if (v.key == name) return v.value;
  }
  return "(none)";
}

TEST(Environment, EverythingButWhatBelongsToAMachine) {
  auto env = make_environment(kOwn, {});
  ASSERT_TRUE(env);
  EXPECT_THAT(names(env->sent),
              ElementsAre("PATH", "A", "NCCL_DEBUG", "NCCL_ALGO", "PYTHONUNBUFFERED"));
  EXPECT_EQ(value(env->sent, "PYTHONUNBUFFERED"), "");
  EXPECT_THAT(env->from_host, Contains("HOME"));
  EXPECT_TRUE(env->notes.empty());
}

TEST(Environment, ExplicitNamesWin) {
  JobSpec spec;
  spec.export_names = {"HOME", "NCCL_*", "ONLY_THERE", "NONE_*"};
  spec.export_values = {{"A", "2"}, {"NEW", ""}};
  auto env = make_environment(kOwn, spec);
  ASSERT_TRUE(env);
  EXPECT_EQ(value(env->sent, "HOME"), "/root");
  EXPECT_EQ(value(env->sent, "A"), "2");
  EXPECT_EQ(value(env->sent, "NEW"), "");
  EXPECT_THAT(env->from_host, Contains("ONLY_THERE"));
  ASSERT_EQ(env->notes.size(), 2U);
  EXPECT_THAT(env->notes[1], HasSubstr("NONE_*"));
}

TEST(Environment, NoEnvKeepsTheHostsOwnPath) {
  JobSpec spec;
  spec.inherit_environment = false;
  spec.export_names = {"NCCL_*"};
  auto env = make_environment(kOwn, spec);
  ASSERT_TRUE(env);
  EXPECT_THAT(names(env->sent), ElementsAre("NCCL_DEBUG", "NCCL_ALGO", "PYTHONUNBUFFERED"));
  EXPECT_THAT(env->from_host, Contains("PATH"));
}

TEST(Environment, TooLongAValueIsNamed) {
  JobSpec spec;
  spec.export_values = {{"BIG", std::string(128 * 1024 - 5, 'x')}};
  EXPECT_TRUE(make_environment({}, spec));
  spec.export_values[0].value += "x";
  auto env = make_environment({}, spec);
  ASSERT_FALSE(env);
  EXPECT_THAT(env.error().text, HasSubstr("variable BIG"));
}

TEST(Environment, ReadsBytes) {
  const char* entries[] = {"A=1", "B==x=\n", "C=", "noequals", "=odd", "X%%=() {\x8a", nullptr};
  auto own = read_environment(entries);
  EXPECT_THAT(names(own), ElementsAre("A", "B", "C", "X%%"));
  EXPECT_EQ(own[1].value, "=x=\n");
  EXPECT_EQ(own[3].value, "() {\x8a");
}

TEST(Environment, SecretLookingNames) {
  for (auto name :
       {"API_TOKEN", "password", "AWS_SECRET_ACCESS_KEY", "KEY", "SSH_KEY", "MY_PASSWD"}) {
    EXPECT_TRUE(looks_secret(name)) << name;
  }
  for (auto name : {"PATH", "KEYBOARD", "MONKEY", "HOME"}) EXPECT_FALSE(looks_secret(name)) << name;
}

TEST(RankEnvironment, HostThenSentThenPlace) {
  rendezvous::LaunchOrder order;
  order.env = {{"A", "sent"}, {"HOME_X", "1"}};
  order.env_from_host = {"HOME", "A", "XDG_*", "PWD"};
  order.working_directory = "/w";
  const char* own[] = {"HOME=/home/me", "A=host", "XDG_S=s", "OTHER=o", "PWD=/old", nullptr};
  auto common = host_environment(order, "@hv-1", own);
  EXPECT_THAT(common, ElementsAre("A=sent", "HOME=/home/me", "HOME_X=1", "HVRUN_AGENT=@hv-1",
                                  "PWD=/w", "XDG_S=s"));
  auto rank = rank_environment(common, {0, 0, false, {{"RANK", "3"}, {"A", "rank"}}});
  EXPECT_THAT(rank, Contains("RANK=3"));
  EXPECT_THAT(rank, Contains("A=rank"));
  EXPECT_THAT(rank, Not(Contains("A=sent")));
}

}  // namespace
}  // namespace hv::launcher
