#include "runtime/collective/reduce_vector.h"

namespace hv::runtime::simd {
namespace {

struct Baseline {
  static constexpr std::size_t kBytes = 16;
  using Half = SoftFloat16<4>;
  using BFloat = SoftBFloat16<4>;
};

}  // namespace

const KernelTable& baseline_table() {
  static constexpr KernelTable table = make_table<Baseline>();
  return table;
}

}  // namespace hv::runtime::simd
