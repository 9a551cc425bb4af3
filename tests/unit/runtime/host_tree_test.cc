#include "runtime/collective/host_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <vector>

namespace hv::runtime {
namespace {

// The tree from its definition: a block of 2^k hosts is its left half and, if there is one, its
// right half.
float tree(const std::vector<std::vector<float>>& values, std::size_t i, int begin, int size) {
  if (size == 1) return values[static_cast<std::size_t>(begin)][i];
  const int right = begin + size / 2;
  const float left = tree(values, i, begin, size / 2);
  if (right >= static_cast<int>(values.size())) return left;
  return left + tree(values, i, right, size / 2);
}

TEST(HostTree, CombinesInOneOrderForAnyNumberOfHosts) {
  for (int hosts = 1; hosts <= 40; ++hosts) {
    const std::size_t count = 300;
    std::vector<std::vector<float>> values(static_cast<std::size_t>(hosts));
    std::vector<const void*> src;
    for (int h = 0; h < hosts; ++h) {
      for (std::size_t i = 0; i < count; ++i) {
        values[static_cast<std::size_t>(h)].push_back(
            std::ldexp(std::sin(static_cast<float>(1 + h * 7 + static_cast<int>(i))), h % 11));
      }
      src.push_back(values[static_cast<std::size_t>(h)].data());
    }
    std::vector<float> result(count);
    combine_hosts(kernel(DType::kFloat32, ReduceOp::kSum), result.data(), src.data(), hosts, count,
                  Scale{});
    const int top = static_cast<int>(std::bit_ceil(static_cast<unsigned>(hosts)));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(result[i], tree(values, i, 0, top)) << hosts << " hosts, element " << i;
    }
  }
}

}  // namespace
}  // namespace hv::runtime
