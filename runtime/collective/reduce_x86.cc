#include <cpuid.h>

#include "runtime/collective/reduce_table.h"

namespace hv::runtime::simd {

namespace {

// clang 14 does not know the name "f16c", so the processor is asked itself (Intel SDM, CPUID leaf
// 1).
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

std::vector<InstructionSet> runnable_instruction_sets() {
  std::vector<InstructionSet> sets{{"sse2", &baseline_table()}};
  if (__builtin_cpu_supports("avx2") && has_f16c()) {
    sets.push_back({"avx2", &avx2_table()});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      sets.push_back({"avx512", &avx512_table()});
    }
  }
  return sets;
}

}  // namespace hv::runtime::simd
