// Our declarations of CUDA's driver and of NCCL against their own headers, where these are.
#include <cuda.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace hv::runtime::nccl {
namespace {

// How a value is passed: as a pointer, as a number of so many bytes, or as a struct of that size.
enum class Form { kPointer, kNumber, kStruct };
template <class T>
struct Passed {
  static constexpr Form kForm = std::is_pointer_v<T>                           ? Form::kPointer
                                : std::is_enum_v<T> || std::is_arithmetic_v<T> ? Form::kNumber
                                                                               : Form::kStruct;
  using Type = std::tuple<std::integral_constant<Form, kForm>,
                          std::integral_constant<std::size_t, sizeof(T)>>;
};
template <class F>
struct Call;
template <class R, class... A>
struct Call<R (*)(A...)> {
  using Type = std::tuple<typename Passed<R>::Type, typename Passed<A>::Type...>;
};
template <class Ours, class Theirs>
constexpr bool kSameCall = std::is_same_v<typename Call<Ours>::Type, typename Call<Theirs>::Type>;

#define EXPECT_NCCL(name) \
  EXPECT_TRUE((kSameCall<decltype(NcclApi::name), decltype(&nccl##name)>)) << #name
#define EXPECT_CUDA(name) \
  EXPECT_TRUE((kSameCall<decltype(CudaApi::name), decltype(&cu##name)>)) << #name

TEST(GpuDeclarations, CallsOfNccl) {
  EXPECT_NCCL(GetVersion);
  EXPECT_NCCL(GetErrorString);
  EXPECT_NCCL(GetLastError);
  EXPECT_NCCL(GetUniqueId);
  EXPECT_NCCL(CommInitRankConfig);
  EXPECT_NCCL(CommFinalize);
  EXPECT_NCCL(CommDestroy);
  EXPECT_NCCL(CommAbort);
  EXPECT_NCCL(CommGetAsyncError);
  EXPECT_NCCL(GroupStart);
  EXPECT_NCCL(GroupEnd);
  EXPECT_NCCL(AllReduce);
  EXPECT_NCCL(AllGather);
  EXPECT_NCCL(ReduceScatter);
  EXPECT_NCCL(Broadcast);
  EXPECT_NCCL(Reduce);
  EXPECT_NCCL(Send);
  EXPECT_NCCL(Recv);
  EXPECT_NCCL(MemAlloc);
  EXPECT_NCCL(MemFree);
  EXPECT_NCCL(CommRegister);
  EXPECT_NCCL(CommDeregister);
  EXPECT_NCCL(CommInitRankScalable);
}

TEST(GpuDeclarations, ValuesOfNccl) {
  EXPECT_EQ(kNcclSuccess, ncclSuccess);
  EXPECT_EQ(kNcclInProgress, ncclInProgress);
  EXPECT_EQ(sizeof(UniqueId), sizeof(ncclUniqueId));
  EXPECT_EQ(int{kNcclInt8}, ncclInt8);
  EXPECT_EQ(int{kNcclUint8}, ncclUint8);
  EXPECT_EQ(int{kNcclInt32}, ncclInt32);
  EXPECT_EQ(int{kNcclUint32}, ncclUint32);
  EXPECT_EQ(int{kNcclInt64}, ncclInt64);
  EXPECT_EQ(int{kNcclUint64}, ncclUint64);
  EXPECT_EQ(int{kNcclFloat16}, ncclFloat16);
  EXPECT_EQ(int{kNcclFloat32}, ncclFloat32);
  EXPECT_EQ(int{kNcclFloat64}, ncclFloat64);
  EXPECT_EQ(int{kNcclBfloat16}, ncclBfloat16);
  EXPECT_EQ(int{kNcclFloat8e4m3}, ncclFloat8e4m3);
  EXPECT_EQ(int{kNcclFloat8e5m2}, ncclFloat8e5m2);
  EXPECT_EQ(int{kNcclSum}, ncclSum);
  EXPECT_EQ(int{kNcclProd}, ncclProd);
  EXPECT_EQ(int{kNcclMax}, ncclMax);
  EXPECT_EQ(int{kNcclMin}, ncclMin);
  EXPECT_EQ(int{kNcclAvg}, ncclAvg);
}

// Ours is the beginning of theirs, and what it leaves alone is what theirs calls undefined.
TEST(GpuDeclarations, TheConfigurationOfACommunicator) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_LE(sizeof(Config), sizeof(ncclConfig_t));
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(offsetof(Config, size), offsetof(ncclConfig_t, size));
  EXPECT_EQ(offsetof(Config, magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(Config, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(Config, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(Config, cga_cluster_size), offsetof(ncclConfig_t, cgaClusterSize));
  EXPECT_EQ(offsetof(Config, min_ctas), offsetof(ncclConfig_t, minCTAs));
  EXPECT_EQ(offsetof(Config, max_ctas), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(Config, net_name), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(Config, split_share), offsetof(ncclConfig_t, splitShare));
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_EQ(ours.net_name, theirs.netName);
}

TEST(GpuDeclarations, CallsOfTheDriver) {
  EXPECT_CUDA(Init);
  EXPECT_CUDA(DriverGetVersion);
  EXPECT_CUDA(GetErrorName);
  EXPECT_CUDA(GetErrorString);
  EXPECT_CUDA(DeviceGetCount);
  EXPECT_CUDA(DeviceGet);
  EXPECT_CUDA(DeviceGetName);
  EXPECT_CUDA(DeviceGetUuid);
  EXPECT_CUDA(DevicePrimaryCtxRetain);
  EXPECT_CUDA(DevicePrimaryCtxRelease);
  EXPECT_CUDA(CtxPushCurrent);
  EXPECT_CUDA(CtxPopCurrent);
  EXPECT_CUDA(CtxGetStreamPriorityRange);
  EXPECT_CUDA(StreamCreateWithPriority);
  EXPECT_CUDA(StreamDestroy);
  EXPECT_CUDA(StreamIsCapturing);
  EXPECT_CUDA(StreamWaitEvent);
  EXPECT_CUDA(StreamSynchronize);
  EXPECT_CUDA(EventCreate);
  EXPECT_CUDA(EventDestroy);
  EXPECT_CUDA(EventRecord);
  EXPECT_CUDA(EventQuery);
  EXPECT_CUDA(MemAlloc);
  EXPECT_CUDA(MemFree);
  EXPECT_CUDA(MemcpyAsync);
  EXPECT_CUDA(PointerGetAttribute);
  EXPECT_CUDA(ModuleLoadData);
  EXPECT_CUDA(ModuleGetFunction);
  EXPECT_CUDA(LaunchKernel);
}

TEST(GpuDeclarations, ValuesOfTheDriver) {
  EXPECT_EQ(kCudaSuccess, CUDA_SUCCESS);
  EXPECT_EQ(kCudaNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kCudaNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kStreamNonBlocking, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(kEventDisableTiming, unsigned{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  EXPECT_EQ(sizeof(Uuid), sizeof(CUuuid));
  EXPECT_EQ(sizeof(DeviceHandle), sizeof(CUdevice));
  EXPECT_EQ(sizeof(Address), sizeof(CUdeviceptr));
}

}  // namespace
}  // namespace hv::runtime::nccl
