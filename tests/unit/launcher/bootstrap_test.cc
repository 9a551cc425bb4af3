#include "launcher/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::launcher {
namespace {

using base::as_text;
using testing::HasSubstr;
using testing::Not;

AgentTicket ticket() {
  return {"job", {}, rendezvous::Secret::random(), 3, "build-1", 5000, false, {}};
}
Bootstrap over_shell(const std::string& path = "/opt/hvagent") {
  return Bootstrap::over_shell(
      ticket(),
      {path, "x86_64", "build-1", std::make_shared<const base::Bytes>(base::to_bytes("IMAGE"))},
      "n0nce");
}
Bootstrap::Next tell(Bootstrap& bootstrap, const std::string& text) {
  return bootstrap.on_output(base::as_bytes(text));
}

TEST(Bootstrap, DirectSendsTheTicketWhenTheAgentGreets) {
  auto bootstrap = Bootstrap::direct(ticket());
  EXPECT_TRUE(bootstrap.opening().empty());
  auto greeting = make_greeting("build-1");
  EXPECT_FALSE(tell(bootstrap, greeting.substr(0, 5)).running);
  auto next = tell(bootstrap, greeting.substr(5) + "frames");
  ASSERT_TRUE(next.running);
  EXPECT_EQ(as_text(bootstrap.rest()), "frames");
  auto read = decode_ticket(base::ByteSpan(next.send).subspan(4));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->host_index, 3u);
}

TEST(Bootstrap, TheScriptIsOneLineAndQuotesThePath) {
  auto bootstrap = over_shell("/it's $HOME/hvagent");
  std::string script(as_text(bootstrap.opening()));
  EXPECT_EQ(script.find('\n'), script.size() - 1);
  EXPECT_THAT(script, HasSubstr(R"(agent='/it'\''s $HOME/hvagent')"));
  EXPECT_THAT(script, HasSubstr("'build-1'"));
  EXPECT_THAT(script, HasSubstr("size=5;"));
  EXPECT_THAT(script, HasSubstr("'hvrun-n0nce'"));
  for (const char* hole : {"%PATH%", "%BUILD%", "%SIZE%", "%NAME%"}) {
    EXPECT_THAT(script, Not(HasSubstr(hole)));
  }
}

TEST(Bootstrap, ChatterIsSkippedAndTheProgramSentOnce) {
  auto bootstrap = over_shell();
  auto next = tell(bootstrap, "Welcome!\nno newline here@hvrun@ upl");
  EXPECT_FALSE(next.send_image || next.running || next.failed);
  next = tell(bootstrap, "oad x86_64\n");
  ASSERT_TRUE(next.send_image);
  EXPECT_EQ(as_text(*next.send_image), "IMAGE");
  EXPECT_FALSE(tell(bootstrap, "more chatter\n").send_image);
  EXPECT_TRUE(tell(bootstrap, make_greeting("build-1")).running);
}

TEST(Bootstrap, WhatTheHostCannotDoIsSaid) {
  struct Case {
    std::string note;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"upload aarch64", {"aarch64", "x86_64", "/opt/hvagent", "install"}},
      {"nowhere /tmp is full, /dev/shm is mounted noexec", {"/tmp is full", "noexec", "install"}},
      {"unwritten /tmp head: error writing: No space left on device", {"/tmp", "No space left"}},
  };
  for (const auto& [note, words] : cases) {
    auto bootstrap = over_shell();
    auto next = tell(bootstrap, "@hvrun@ " + note + "\n");
    ASSERT_TRUE(next.failed) << note;
    for (const auto& word : words) EXPECT_THAT(next.failed->text, HasSubstr(word));
  }
}

TEST(Bootstrap, AnotherBuildIsNamed) {
  auto bootstrap = Bootstrap::direct(ticket());
  auto next = tell(bootstrap, make_greeting("build-0"));
  ASSERT_TRUE(next.failed);
  EXPECT_FALSE(next.running);
  EXPECT_THAT(next.failed->text, HasSubstr("build-0"));
  EXPECT_THAT(next.failed->text, HasSubstr("build-1"));
}

TEST(Bootstrap, AnEarlyEndTellsWhatTheHostSaid) {
  auto bootstrap = over_shell();
  tell(bootstrap, "This account is currently not available.\n");
  auto error = bootstrap.on_end("ssh ended with code 1", "a\n\n  b\n");
  EXPECT_THAT(error.text, HasSubstr("code 1"));
  EXPECT_THAT(error.text, HasSubstr("This account is currently not available. | a | b"));
}

}  // namespace
}  // namespace hv::launcher
