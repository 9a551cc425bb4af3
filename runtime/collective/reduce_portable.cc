#include "runtime/collective/reduce_table.h"

namespace hv::runtime::simd {

std::vector<InstructionSet> runnable_instruction_sets() {
  return {{"portable", &baseline_table()}};
}

}  // namespace hv::runtime::simd
