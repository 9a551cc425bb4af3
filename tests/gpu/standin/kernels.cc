// The kernels of the plug-in, from their own source, run by this processor.
#include "tests/gpu/standin/kernels.h"

#include "runtime/backend/nccl/kernels.cu"

thread_local Dim threadIdx, blockIdx;

namespace standin {
namespace {

struct Named {
  const char* name;
  Kernel kernel;
};
constexpr Named kKernels[] = {
    {"hv_move_bytes", &hv_move_bytes},       {"hv_move_f16", &hv_move_f16},
    {"hv_move_bf16", &hv_move_bf16},         {"hv_move_f32", &hv_move_f32},
    {"hv_move_f64", &hv_move_f64},           {"hv_move_f32_f16", &hv_move_f32_f16},
    {"hv_move_f32_bf16", &hv_move_f32_bf16},
};

}  // namespace

Kernel find_kernel(std::string_view name) {
  for (const Named& named : kKernels) {
    if (named.name == name) return named.kernel;
  }
  return nullptr;
}

void run_kernel(Kernel kernel, const hv::runtime::nccl::PackArgs& args, unsigned blocks,
                unsigned threads) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(args);
  }
}

}  // namespace standin
