#pragma once

#include <string_view>

#include "runtime/backend/nccl/kernels.h"

namespace standin {

using Kernel = void (*)(hv::runtime::nccl::PackArgs);
[[gnu::visibility("default")]] Kernel find_kernel(std::string_view name);  // null: there is none
[[gnu::visibility("default")]] void run_kernel(Kernel kernel,
                                               const hv::runtime::nccl::PackArgs& args,
                                               unsigned blocks, unsigned threads);

}  // namespace standin
