// The kernels of one instruction set, by type and operation. Which sets a build has is decided by
// CMake: each reduce_<isa>.cc defines one table, reduce_<architecture>.cc lists those that run
// here.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "runtime/collective/reduce.h"

namespace hv::runtime::simd {

struct KernelTable {
  std::array<std::array<Kernel, 6>, 15> kernels{};
  constexpr Kernel& at(DType dtype, ReduceOp op) {
    return kernels[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  }
  constexpr const Kernel& at(DType dtype, ReduceOp op) const {
    return kernels[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  }
};

struct InstructionSet {
  std::string_view name;
  const KernelTable* table;
};
std::vector<InstructionSet> runnable_instruction_sets();  // best last

const KernelTable& baseline_table();  // 16-byte vectors: SSE2, NEON, or whatever the compiler makes
const KernelTable& avx2_table();
const KernelTable& avx512_table();

}  // namespace hv::runtime::simd
