// Slurm's lists under mutated texts: never a crash, and each answer is either names or a place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "launcher/slurm_nodes.h"

namespace hv::launcher {
namespace {

constexpr std::array<std::string_view, 12> kCorpus = {"n[001-003,007]",
                                                      "b04-[09-10]",
                                                      "a,b[001,003],c",
                                                      "c427-032,c429-002",
                                                      "r[1-2]n[01-02]s[3-4]-ib",
                                                      "2(x3),1",
                                                      "[0-3]",
                                                      "x[9-11]y",
                                                      "n[99999999998-100000000000]",
                                                      "n[1-",
                                                      "n[[1]]",
                                                      "\xff[\x01-\x02]"};

std::string mutate(std::string text, std::mt19937& random) {
  constexpr std::string_view kAlphabet("[](),-x0129 n\0\xff", 16);
  auto below = [&](std::size_t n) { return random() % n; };
  for (auto edits = 1 + below(6); edits > 0; --edits) {
    std::size_t at = text.empty() ? 0 : below(text.size());
    char c = kAlphabet[below(kAlphabet.size())];
    switch (below(4)) {
      case 0:
        text.insert(at, 1, c);
        break;
      case 1:
        if (!text.empty()) text[at] = c;
        break;
      case 2:
        if (!text.empty()) text.erase(at, 1 + below(3));
        break;
      default:
        text.insert(at, kCorpus[below(kCorpus.size())]);
    }
  }
  return text;
}

TEST(SlurmListsFuzz, NamesOrAPlace) {
  std::mt19937 random(20);
  int names = 0, places = 0;
  for (int round = 0; round < 60000; ++round) {
    auto text =
        mutate(std::string(kCorpus[static_cast<std::size_t>(round) % kCorpus.size()]), random);
    auto nodes = expand_node_list(text, "LIST");
    if (nodes) {
      ++names;
      for (const auto& name : *nodes) ASSERT_FALSE(name.empty()) << text;
    } else {
      ++places;
      ASSERT_THAT(nodes.error().text, testing::HasSubstr(" at character ")) << text;
    }
    auto counts = expand_counts(text, "COUNTS");
    if (counts) {
      ASSERT_FALSE(counts->empty()) << text;
    } else {
      ASSERT_THAT(counts.error().text, testing::HasSubstr(" at character ")) << text;
    }
  }
  EXPECT_GT(names, 1000);
  EXPECT_GT(places, 1000);
}

}  // namespace
}  // namespace hv::launcher
