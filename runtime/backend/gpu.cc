// Part of both sides, libhv and the plug-in.
#include "runtime/backend/gpu.h"

#include "runtime/handle.h"

namespace hv::runtime {

// Grows by hand when the meaning of a call changes; layouts are in the sizes.
constexpr int kSeam = 1;

std::string gpu_seam() {
  std::string text = std::to_string(kSeam) + "; " __VERSION__ "; ";
  for (std::size_t size : {sizeof(Op), sizeof(Batch), sizeof(HandleState), sizeof(TensorView),
                           sizeof(GpuOptions), sizeof(base::Error)}) {
    text += std::to_string(size) + " ";
  }
  return text;
}

}  // namespace hv::runtime
