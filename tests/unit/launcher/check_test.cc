#include "launcher/diagnose/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hv::launcher::diagnose {
namespace {

using testing::HasSubstr;

CheckTable table(std::string host, std::vector<Check> checks) {
  CheckTable made;
  made.title = "hvrun 0.1.0 (git abc)";
  made.version = "0.1.0";
  made.git = "abc";
  made.compiler = "GNU 12.2.0";
  made.build_type = "Release";
  made.host = std::move(host);
  made.checks = std::move(checks);
  return made;
}

Check found(std::string name, std::string version, std::string path, std::string reason = {}) {
  Check check = yes("GPU", std::move(name));
  check.version = std::move(version);
  check.path = std::move(path);
  check.reason = std::move(reason);
  return check;
}

TEST(CheckTable, AsText) {
  auto text = to_text(table(
      "h1", {found("NCCL", "2.18.3", "/lib/libnccl.so.2", "all there"),
             no("GPU", "CUDA driver", "not found"), value("Limits", "open files", "1024", 1024)}));
  EXPECT_EQ(text,
            "hvrun 0.1.0 (git abc)\n"
            "\nGPU\n"
            "  NCCL         yes  2.18.3  /lib/libnccl.so.2  (all there)\n"
            "  CUDA driver  no   (not found)\n"
            "\nLimits\n"
            "  open files   1024\n");
}

TEST(CheckTable, ComesBackFromJson) {
  auto made = table(
      "h1", {found("NCCL", "2.18.3", "/lib/libnccl.so.2", "all there"),
             no("GPU", "CUDA driver", "not found"), value("Limits", "open files", "1024", 1024)});
  auto back = parse_check_table(to_json(made));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->checks, made.checks);
  EXPECT_EQ(back->host, "h1");
  EXPECT_EQ(back->git, "abc");
  auto json = nlohmann::json::parse(to_json(made));
  EXPECT_EQ(json["checks"][0]["answer"], "yes");
  EXPECT_EQ(json["checks"][2]["number"], 1024);
}

TEST(CheckTable, JsonHoldsWhateverBytesALibraryCallsItself) {
  auto json = to_json(table("h1", {found("NCCL", "\xff\xfe\"2", "/lib\n")}));
  EXPECT_TRUE(nlohmann::json::accept(json));
}

TEST(CheckTable, RefusesOtherTexts) {
  for (const char* text : {"", "{}", "[1]", "no json", R"({"host": 3, "checks": []})"}) {
    EXPECT_FALSE(parse_check_table(text).has_value()) << text;
  }
}

TEST(CheckCompare, TellsOnlyWhatDiffers) {
  auto good = found("NCCL", "2.18.3", "/lib/libnccl.so.2", "20 GiB free");
  auto reason = found("NCCL", "2.18.3", "/lib/libnccl.so.2", "3 GiB free");
  auto old = found("NCCL", "2.16.2", "/lib/libnccl.so.2");
  auto files = value("Limits", "open files", "1024", 1024);
  auto comparison = compare(
      {table("h1", {old, files}), table("h2", {good, files}), table("h3", {reason, files})});
  ASSERT_EQ(comparison.differences.size(), 1u);
  auto text = to_text(comparison);
  EXPECT_THAT(text, HasSubstr("GPU: NCCL\n"
                              "  yes 2.18.3 /lib/libnccl.so.2  on h2,h3\n"
                              "  yes 2.16.2 /lib/libnccl.so.2  on h1\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("open files")));
  auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json["hosts"], 3);
  EXPECT_EQ(json["differences"][0]["sides"][1]["hosts"][0], "h1");
}

TEST(CheckCompare, AnotherBuildAndAMissingLine) {
  auto one = table("h1", {found("NCCL", "2", "/n")});
  auto other = table("h2", {});
  other.title = "hvrun 0.2.0 (git def)";
  auto text = to_text(compare({one, other}));
  EXPECT_THAT(text, HasSubstr("Build: hvrun\n  hvrun 0.1.0 (git abc)  on h1\n"));
  EXPECT_THAT(text, HasSubstr("GPU: NCCL\n  yes 2 /n  on h1\n  missing  on h2\n"));
}

TEST(CheckCompare, AllTheSame) {
  EXPECT_EQ(to_text(compare({table("a", {}), table("b", {})})), "all 2 hosts are the same\n");
}

TEST(CheckCompare, AHostThatCouldNotBeAskedIsTold) {
  auto comparison = compare({table("a", {})}, {{"b", "no route to host"}});
  EXPECT_EQ(to_text(comparison),
            "b could not be asked: no route to host\nnothing to compare: 1 host answered\n");
  auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json["unasked"][0]["why"], "no route to host");
}

}  // namespace
}  // namespace hv::launcher::diagnose
