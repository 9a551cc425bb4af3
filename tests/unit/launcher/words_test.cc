#include "apps/hvrun/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hv::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<OptionName> kKnown = {
    {"-n", true},         {"--num-proc", true}, {"-H", true},  {"--hosts", true},
    {"--hostfile", true}, {"--verbose", false}, {"-v", false}, {"--version", false},
    {"-p", true},         {"-x", true}};

Words split(const std::vector<std::string>& args) {
  auto words = split_words(args, kKnown);
  EXPECT_TRUE(words) << words.error().text;
  return words ? *words : Words{};
}

std::string error(const std::vector<std::string>& args) {
  auto words = split_words(args, kKnown);
  return words ? "split" : words.error().text;
}

TEST(Words, StopAtTheProgram) {
  auto words = split({"-np", "2", "prog", "-H", "x", "--", "-np", "9"});
  EXPECT_THAT(flat(words.options), ElementsAre("--num-proc", "2"));
  EXPECT_THAT(words.program, ElementsAre("prog", "-H", "x", "--", "-np", "9"));
  words = split({"--verbose", "--", "-odd-program", "--"});
  EXPECT_THAT(flat(words.options), ElementsAre("--verbose"));
  EXPECT_THAT(words.program, ElementsAre("-odd-program", "--"));
  EXPECT_THAT(split({"-np", "2"}).program, IsEmpty());
  EXPECT_THAT(split({"-"}).program, ElementsAre("-"));
}

TEST(Words, Spellings) {
  for (auto args : std::vector<std::vector<std::string>>{{"-np", "4"},
                                                         {"-np=4"},
                                                         {"-np4"},
                                                         {"--num-proc", "4"},
                                                         {"--num-proc=4"},
                                                         {"--num", "4"},
                                                         {"-num-proc", "4"}}) {
    EXPECT_THAT(flat(split(args).options), ElementsAre("--num-proc", "4")) << args[0];
  }
  EXPECT_THAT(flat(split({"-p22"}).options), ElementsAre("-p", "22"));
  EXPECT_THAT(flat(split({"-hostfile", "f"}).options), ElementsAre("--hostfile", "f"));
  EXPECT_THAT(flat(split({"-x", "A=--b"}).options), ElementsAre("-x", "A=--b"));
  EXPECT_THAT(flat(split({"-x", "-odd"}).options), ElementsAre("-x", "-odd"));
  EXPECT_THAT(flat(split({"--hosts="}).options), ElementsAre("--hosts", ""));
}

TEST(Words, Mistakes) {
  EXPECT_THAT(error({"--hostfle", "x"}), HasSubstr("did you mean --hostfile?"));
  EXPECT_THAT(error({"--host", "x"}), HasSubstr("--hosts, --hostfile"));
  EXPECT_THAT(error({"--ver"}), HasSubstr("--verbose, --version"));
  EXPECT_THAT(error({"-np"}), HasSubstr("-np needs a value"));
  EXPECT_THAT(error({"--verbose=1"}), HasSubstr("takes no value"));
  EXPECT_THAT(error({"-q"}), HasSubstr("unknown option '-q'"));
  EXPECT_THAT(error({"-vx"}), HasSubstr("unknown option '-vx'"));
}

TEST(Words, Quoting) {
  EXPECT_EQ(quote({"hvrun", "-x", "A=b c", "it's", ""}), "hvrun -x 'A=b c' 'it'\\''s' ''");
}

}  // namespace
}  // namespace hv::apps
