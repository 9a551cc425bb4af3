#include "runtime/collective/reduce.h"

#include <bit>
#include <string>

#include "runtime/collective/reduce_table.h"

namespace hv::runtime {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

const std::vector<simd::InstructionSet>& sets() {
  static const auto found = simd::runnable_instruction_sets();
  return found;
}

}  // namespace

base::Result<void> check_reduction(DType dtype, ReduceOp op) {
  const std::string what = std::string(to_string(op)) + " of " + std::string(to_string(dtype));
  if (dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2) {
    return base::fail(base::Code::kInvalidArgument,
                      what + ": float8 tensors can be moved, not reduced; convert them first");
  }
  if (op == ReduceOp::kAdasum && !is_float(dtype)) {
    return base::fail(base::Code::kInvalidArgument,
                      what + ": adasum is for gradients: float16, bfloat16, float32 or float64");
  }
  if (dtype == DType::kBool && op == ReduceOp::kAverage) {
    return base::fail(base::Code::kInvalidArgument,
                      what + ": truth values have no average; use min, max, sum (or) or product");
  }
  return {};
}

Scale make_scale(DType dtype, ReduceOp op, int ranks, double prescale, double postscale) {
  Scale scale{prescale, postscale, op == ReduceOp::kAverage ? ranks : 1};
  if (is_float(dtype) && std::has_single_bit(static_cast<std::uint64_t>(scale.divisor))) {
    scale.post /= static_cast<double>(scale.divisor);
    scale.divisor = 1;
  }
  return scale;
}

const Kernel& kernel(DType dtype, ReduceOp op) { return sets().back().table->at(dtype, op); }

std::vector<std::string_view> instruction_sets() {
  std::vector<std::string_view> names;
  for (const auto& set : sets()) names.push_back(set.name);
  return names;
}

const Kernel& kernel(DType dtype, ReduceOp op, std::string_view instruction_set) {
  for (const auto& set : sets()) {
    if (set.name == instruction_set) return set.table->at(dtype, op);
  }
  return kernel(dtype, op);
}

}  // namespace hv::runtime
