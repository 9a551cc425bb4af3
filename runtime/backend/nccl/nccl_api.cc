#include "runtime/backend/nccl/nccl_api.h"

#include "rendezvous/base/text.h"
#include "runtime/backend/nccl/library.h"

namespace hv::runtime::nccl {

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

base::Result<NcclApi> open_nccl(const std::string& path) {
  auto library = Library::open(path, {"libnccl.so.2", "libnccl.so", "librccl.so.1", "librccl.so"});
  if (!library) {
    return base::fail(base::Code::kUnavailable,
                      "NCCL is missing. Tried: " + library.error().text +
                          ". Install NCCL 2.18 or newer, or name its path by HVRUN_NCCL_LIBRARY");
  }
  NcclApi api{};
  api.path = library->path();
  library->need(api.GetVersion, "ncclGetVersion");
  library->need(api.GetErrorString, "ncclGetErrorString");
  library->need(api.GetLastError, "ncclGetLastError");
  library->need(api.GetUniqueId, "ncclGetUniqueId");
  library->need(api.CommInitRankConfig, "ncclCommInitRankConfig");
  library->need(api.CommFinalize, "ncclCommFinalize");
  library->need(api.CommDestroy, "ncclCommDestroy");
  library->need(api.CommAbort, "ncclCommAbort");
  library->need(api.CommGetAsyncError, "ncclCommGetAsyncError");
  library->need(api.GroupStart, "ncclGroupStart");
  library->need(api.GroupEnd, "ncclGroupEnd");
  library->need(api.AllReduce, "ncclAllReduce");
  library->need(api.AllGather, "ncclAllGather");
  library->need(api.ReduceScatter, "ncclReduceScatter");
  library->need(api.Broadcast, "ncclBroadcast");
  library->need(api.Reduce, "ncclReduce");
  library->need(api.Send, "ncclSend");
  library->need(api.Recv, "ncclRecv");
  if (api.GetVersion != nullptr) (void)api.GetVersion(&api.version);
  if (api.GetVersion != nullptr && api.version < kOldestNccl) {
    return base::fail(base::Code::kUnavailable, "NCCL " + nccl_version_text(api.version) + " (" +
                                                    api.path +
                                                    ") is too old; 2.18 is the oldest that works");
  }
  if (!library->lacking().empty()) {
    return base::fail(base::Code::kUnavailable, api.path + " is not NCCL 2.18 or newer: it lacks " +
                                                    base::join(library->lacking(), ", "));
  }
  api.MemAlloc = library->find<NcclCode(void**, std::size_t)>("ncclMemAlloc");
  api.MemFree = library->find<NcclCode(void*)>("ncclMemFree");
  api.CommRegister = library->find<NcclCode(Comm, void*, std::size_t, void**)>("ncclCommRegister");
  api.CommDeregister = library->find<NcclCode(Comm, void*)>("ncclCommDeregister");
  api.CommInitRankScalable =
      library->find<NcclCode(Comm*, int, int, int, UniqueId*, Config*)>("ncclCommInitRankScalable");
  return api;
}

}  // namespace hv::runtime::nccl
