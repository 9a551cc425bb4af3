// What came after 2.18; a stand-in without this file is an old NCCL.
#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"
#include "tests/gpu/standin/standin.h"

using namespace hv::runtime::nccl;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT CudaCode cuMemAlloc_v2(Address* address, std::size_t bytes);
EXPORT CudaCode cuMemFree_v2(Address address);
EXPORT NcclCode ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank,
                                       Config* config);

EXPORT NcclCode ncclMemAlloc(void** memory, std::size_t bytes) {
  Address address = 0;
  const CudaCode code = cuMemAlloc_v2(&address, bytes);
  *memory = reinterpret_cast<void*>(address);
  return code;
}
EXPORT NcclCode ncclMemFree(void* memory) {
  return cuMemFree_v2(reinterpret_cast<Address>(memory));
}
EXPORT NcclCode ncclCommRegister(Comm, void*, std::size_t, void** handle) {
  standin::count("register");
  *handle = nullptr;
  return kNcclSuccess;
}
EXPORT NcclCode ncclCommDeregister(Comm, void*) { return kNcclSuccess; }
EXPORT NcclCode ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int ids, UniqueId* id,
                                         Config* config) {
  for (int i = 0; i < ids; ++i) standin::count("scalable");
  return ncclCommInitRankConfig(comm, ranks, id[0], rank, config);
}
