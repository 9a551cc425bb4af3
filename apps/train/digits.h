// The handwritten digits that the example trains on, and their fixed split.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/train/matrix.h"

namespace hv::train {

struct Rows {
  Matrix pixels;            // one row per digit, 64 columns, scaled to [0, 1]
  std::vector<int> labels;  // 0 to 9
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Digits {
  Rows train;
  Rows test;  // every fifth row of the file
};

constexpr int kPixels = 64;
constexpr int kClasses = 10;

// The set built into the program. Throws std::runtime_error if that is damaged.
Digits load_digits();

// Text of lines "pixel,…,pixel,label" into rows; throws std::runtime_error naming the line.
Rows parse_digits(const std::string& csv);

// These rows, in this order.
Rows select(const Rows& rows, std::span<const std::int64_t> indices);

}  // namespace hv::train
