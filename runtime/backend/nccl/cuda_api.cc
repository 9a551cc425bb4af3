#include "runtime/backend/nccl/cuda_api.h"

#include <filesystem>

#include "rendezvous/base/text.h"
#include "runtime/backend/nccl/library.h"

namespace hv::runtime::nccl {

base::Result<CudaApi> open_cuda(const std::string& path) {
  auto library = Library::open(path, {"libcuda.so.1", "libcuda.so"});
  if (!library) {
    std::error_code none;
    std::string amd;
    if (std::filesystem::exists("/dev/kfd", none)) {
      amd = ". This host has an AMD device (/dev/kfd), for which the plug-in has no kernels";
    }
    return base::fail(base::Code::kUnavailable,
                      "the CUDA driver is missing. Tried: " + library.error().text + amd);
  }
  CudaApi api{};
  api.path = library->path();
  library->need(api.Init, "cuInit");
  library->need(api.DriverGetVersion, "cuDriverGetVersion");
  library->need(api.GetErrorName, "cuGetErrorName");
  library->need(api.GetErrorString, "cuGetErrorString");
  library->need(api.DeviceGetCount, "cuDeviceGetCount");
  library->need(api.DeviceGet, "cuDeviceGet");
  library->need(api.DeviceGetName, "cuDeviceGetName");
  library->need(api.DeviceGetUuid, "cuDeviceGetUuid_v2");
  library->need(api.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  library->need(api.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  library->need(api.CtxPushCurrent, "cuCtxPushCurrent_v2");
  library->need(api.CtxPopCurrent, "cuCtxPopCurrent_v2");
  library->need(api.CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange");
  library->need(api.StreamCreateWithPriority, "cuStreamCreateWithPriority");
  library->need(api.StreamDestroy, "cuStreamDestroy_v2");
  library->need(api.StreamIsCapturing, "cuStreamIsCapturing");
  library->need(api.StreamWaitEvent, "cuStreamWaitEvent");
  library->need(api.StreamSynchronize, "cuStreamSynchronize");
  library->need(api.EventCreate, "cuEventCreate");
  library->need(api.EventDestroy, "cuEventDestroy_v2");
  library->need(api.EventRecord, "cuEventRecord");
  library->need(api.EventQuery, "cuEventQuery");
  library->need(api.MemAlloc, "cuMemAlloc_v2");
  library->need(api.MemFree, "cuMemFree_v2");
  library->need(api.MemcpyAsync, "cuMemcpyAsync");
  library->need(api.PointerGetAttribute, "cuPointerGetAttribute");
  library->need(api.ModuleLoadData, "cuModuleLoadData");
  library->need(api.ModuleGetFunction, "cuModuleGetFunction");
  library->need(api.LaunchKernel, "cuLaunchKernel");
  if (library->lacking().empty()) return api;
  return base::fail(base::Code::kUnavailable,
                    "the CUDA driver " + api.path + " is too old or none: it lacks " +
                        base::join(library->lacking(), ", ") + "; 11.4 (R470) is the oldest");
}

}  // namespace hv::runtime::nccl
