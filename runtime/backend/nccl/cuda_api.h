// The part of the CUDA driver's interface that is used, declared here so that nothing of CUDA is
// needed to compile it; libcuda is opened at run time. Names are the driver's without "cu".
// Source: cuda.h of CUDA 11.4 and later; tests/gpu/declarations_test.cc compares where it is there.
#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/base/result.h"

namespace hv::runtime::nccl {

using CudaCode = int;
constexpr CudaCode kCudaSuccess = 0, kCudaNoDevice = 100, kCudaNotReady = 600;

using DeviceHandle = int;
using Address = unsigned long long;
struct ContextTag;
struct StreamTag;
struct EventTag;
struct ModuleTag;
struct FunctionTag;
using Context = ContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;
struct Uuid {
  unsigned char bytes[16];
};
constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
constexpr int kPointerDeviceOrdinal = 9;

struct CudaApi {
  CudaCode (*Init)(unsigned);
  CudaCode (*DriverGetVersion)(int*);
  CudaCode (*GetErrorName)(CudaCode, const char**);
  CudaCode (*GetErrorString)(CudaCode, const char**);
  CudaCode (*DeviceGetCount)(int*);
  CudaCode (*DeviceGet)(DeviceHandle*, int);
  CudaCode (*DeviceGetName)(char*, int, DeviceHandle);
  CudaCode (*DeviceGetUuid)(Uuid*, DeviceHandle);  // of a slice of a device, too (MIG)
  CudaCode (*DevicePrimaryCtxRetain)(Context*, DeviceHandle);
  CudaCode (*DevicePrimaryCtxRelease)(DeviceHandle);
  CudaCode (*CtxPushCurrent)(Context);
  CudaCode (*CtxPopCurrent)(Context*);
  CudaCode (*CtxGetStreamPriorityRange)(int*, int*);
  CudaCode (*StreamCreateWithPriority)(Stream*, unsigned, int);
  CudaCode (*StreamDestroy)(Stream);
  CudaCode (*StreamIsCapturing)(Stream, int*);
  CudaCode (*StreamWaitEvent)(Stream, Event, unsigned);
  CudaCode (*StreamSynchronize)(Stream);
  CudaCode (*EventCreate)(Event*, unsigned);
  CudaCode (*EventDestroy)(Event);
  CudaCode (*EventRecord)(Event, Stream);
  CudaCode (*EventQuery)(Event);
  CudaCode (*MemAlloc)(Address*, std::size_t);
  CudaCode (*MemFree)(Address);
  CudaCode (*MemcpyAsync)(Address, Address, std::size_t, Stream);
  CudaCode (*PointerGetAttribute)(void*, int, Address);
  CudaCode (*ModuleLoadData)(Module*, const void*);
  CudaCode (*ModuleGetFunction)(Function*, Module, const char*);
  CudaCode (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, Stream, void**, void**);
  std::string path;  // of the library
};
// kUnavailable: the driver is missing, and where it was looked for.
base::Result<CudaApi> open_cuda(const std::string& path);

}  // namespace hv::runtime::nccl
