// The kernels that the build has compiled (HV_KERNEL_IMAGE: a file), as they are.
#include "runtime/backend/nccl/device.h"

asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".globl hv_kernel_image_begin\n"
    "hv_kernel_image_begin:\n"
    ".incbin \"" HV_KERNEL_IMAGE
    "\"\n"
    ".globl hv_kernel_image_end\n"
    "hv_kernel_image_end:\n"
    ".popsection\n");

extern "C" {
extern const std::byte hv_kernel_image_begin[] __attribute__((visibility("hidden")));
extern const std::byte hv_kernel_image_end[] __attribute__((visibility("hidden")));
}

namespace hv::runtime::nccl {

std::span<const std::byte> kernel_image() { return {hv_kernel_image_begin, hv_kernel_image_end}; }

}  // namespace hv::runtime::nccl
