#include "runtime/collective/reduce_table.h"

namespace hv::runtime::simd {

std::vector<InstructionSet> runnable_instruction_sets() {
  std::vector<InstructionSet> sets{{"sse2", &baseline_table()}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    sets.push_back({"avx2", &avx2_table()});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      sets.push_back({"avx512", &avx512_table()});
    }
  }
  return sets;
}

}  // namespace hv::runtime::simd
