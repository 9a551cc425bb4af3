// What the GPU backend cannot run goes through host memory: there, by the host backend, and back.
#pragma once

#include "runtime/backend/gpu.h"

namespace hv::runtime {

// The batch as if its tensors were in host memory; only to ask who can run it.
Batch as_host_batch(const Batch& batch);

// Waits for the tensors to be ready and copied, holding the baton: meant for what is small or rare.
// Host batches start in the same order on all ranks, so this cannot begin later.
void detour_by_host(Gpu& gpu, Backend& host, Batch batch, Done done);

}  // namespace hv::runtime
