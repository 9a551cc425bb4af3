#include "launcher/diagnose/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace hv::launcher::diagnose {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr base::Millis kLimit = 20s;  // for children that end by themselves

Reply ask_one(Question question, base::Millis limit = kLimit) {
  return ask({std::move(question)}, limit).at(0);
}

TEST(Child, ProgramsAnswer) {
  auto reply = ask_one({{"sh", "-c", "echo out; echo err >&2; exit 3"}, {}});
  EXPECT_EQ(reply.out, "out\n");
  EXPECT_EQ(reply.errors, "err\n");
  EXPECT_EQ(reply.code, 3);
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(how_it_ended(reply, kLimit), "ended with exit code 3");
}

TEST(Child, NoSuchProgram) {
  auto reply = ask_one({{"/no/such/program"}, {}});
  EXPECT_FALSE(reply.ok());
  EXPECT_THAT(reply.errors, HasSubstr("No such file"));
}

TEST(Child, FunctionsSayAndTheirPrintsStayApart) {
  auto reply = ask_one({{}, [](const Say& say) {
                          std::printf("noise\n");
                          std::fflush(stdout);
                          say("key", "one\ntwo");
                          say("key", "three");
                          say("other", "=x");
                        }});
  EXPECT_TRUE(reply.ok());
  EXPECT_THAT(reply.all_said("key"), ElementsAre("one two", "three"));
  EXPECT_EQ(reply.said("other"), "=x");
  EXPECT_EQ(reply.said("missing"), "");
  EXPECT_EQ(reply.errors, "noise\n");
}

TEST(Child, ACrashKeepsWhatWasSaid) {
  auto reply = ask_one({{}, [](const Say& say) {
                          say("step", "loading");
                          ::signal(SIGSEGV, SIG_DFL);
                          ::raise(SIGSEGV);
                        }});
  EXPECT_EQ(reply.ending, Reply::Ending::kSignalled);
  EXPECT_EQ(reply.said("step"), "loading");
  EXPECT_THAT(how_it_ended(reply, kLimit), HasSubstr("signal 11"));
}

TEST(Child, AHangEndsWithTheLimitForAllAtOnce) {
  auto begin = base::Clock::now();
  std::vector<Question> questions(8, {{"sleep", "100"}, {}});
  questions.push_back({{}, [](const Say& say) {
                         say("step", "hanging");
                         for (;;) ::pause();
                       }});
  questions.push_back({{"sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100"}, {}});
  questions.push_back({{"echo", "fast"}, {}});
  auto replies = ask(questions, 400ms);
  EXPECT_LT(base::Clock::now() - begin, 5s);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(replies[i].ending, Reply::Ending::kTimedOut) << i;
  }
  EXPECT_EQ(replies[8].said("step"), "hanging");
  EXPECT_EQ(how_it_ended(replies[8], 400ms), "did not end within 0.4 s");
  EXPECT_EQ(replies[10].out, "fast\n");
}

TEST(Child, WhatAChildLeavesBehindIsEnded) {
  auto reply = ask_one({{"sh", "-c", "sleep 100 & echo $!"}, {}});
  ASSERT_TRUE(reply.ok());
  pid_t left = std::atoi(reply.out.c_str());
  ASSERT_GT(left, 0);
  for (int i = 0; i < 500 && ::kill(left, 0) == 0; ++i) {
    // A zombie that init has not taken yet still counts as there.
    std::string state = "/proc/" + std::to_string(left) + "/stat";
    char text[256] = {};
    if (FILE* file = std::fopen(state.c_str(), "r")) {
      if (std::fgets(text, sizeof text, file) != nullptr) state = text;
      std::fclose(file);
    }
    if (state.find(") Z ") != state.npos) return;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_NE(::kill(left, 0), 0);
}

TEST(Child, EndlessOutputIsCut) {
  auto reply = ask_one({{"sh", "-c", "yes | head -c 3000000; echo done >&2"}, {}});
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply.out.size(), 256u * 1024);
  EXPECT_EQ(reply.errors, "done\n");
}

TEST(Child, StandardInputIsEmpty) { EXPECT_EQ(ask_one({{"cat"}, {}}).ok(), true); }

TEST(Child, LastLine) {
  EXPECT_EQ(last_line("Traceback\n  x = 1\nValueError: broken\n\n-----\n"), "ValueError: broken");
  EXPECT_EQ(last_line("123\n"), "");
}

}  // namespace
}  // namespace hv::launcher::diagnose
