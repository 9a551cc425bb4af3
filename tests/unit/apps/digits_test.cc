#include "apps/train/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

namespace hv::train {
namespace {

std::string line_with(const std::string& pixel, const std::string& label) {
  std::string line;
  for (int i = 0; i < kPixels; ++i) line += pixel + ",";
  return line + label + "\n";
}

TEST(Digits, TheSetIsWholeAndSplit) {
  const Digits digits = load_digits();
  EXPECT_EQ(digits.train.count(), 1438);
  EXPECT_EQ(digits.test.count(), 359);
  std::array<int, kClasses> seen{};
  for (int label : digits.train.labels) ++seen.at(static_cast<std::size_t>(label));
  for (int label : digits.test.labels) ++seen.at(static_cast<std::size_t>(label));
  // As published with the set.
  EXPECT_THAT(seen, testing::ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
  EXPECT_EQ(digits.train.pixels.minCoeff(), 0.0f);
  EXPECT_EQ(digits.train.pixels.maxCoeff(), 1.0f);
  EXPECT_EQ(digits.train.labels[0], 0);
  EXPECT_FLOAT_EQ(digits.train.pixels(0, 2), 5.0f / 16);
}

TEST(Digits, ParsesLines) {
  const Rows rows = parse_digits(line_with("8", "3") + line_with("16", "9"));
  ASSERT_EQ(rows.count(), 2);
  EXPECT_EQ(rows.labels, (std::vector<int>{3, 9}));
  EXPECT_EQ(rows.pixels(0, 0), 0.5f);
  EXPECT_EQ(rows.pixels(1, 63), 1.0f);
}

TEST(Digits, NamesTheLineAndColumnOfAFault) {
  for (const auto& bad : {line_with("17", "3"), line_with("-1", "3"), line_with("x", "3"),
                          line_with("1", "10"), line_with("1", "3,4"), std::string("1,2\n")}) {
    try {
      parse_digits(line_with("1", "3") + bad);
      FAIL() << bad;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("line 2, column "));
    }
  }
}

TEST(Digits, SelectsRowsInOrder) {
  const Rows rows = parse_digits(line_with("0", "0") + line_with("1", "1") + line_with("2", "2"));
  const std::vector<std::int64_t> order{2, 0, 2};
  const Rows chosen = select(rows, order);
  EXPECT_EQ(chosen.labels, (std::vector<int>{2, 0, 2}));
  EXPECT_EQ(chosen.pixels(0, 5), 2.0f / 16);
  EXPECT_EQ(select(rows, {}).count(), 0);
}

}  // namespace
}  // namespace hv::train
