#include "apps/hvbench/cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace hv::bench {
namespace {

using namespace runtime::nccl;

template <class T>
T value_of(base::Result<T> result) {
  if (!result) throw Error(ErrorCode::kUnavailable, result.error().text);
  return std::move(*result);
}

std::string path_of(const char* variable) {
  const char* path = std::getenv(variable);
  return path ? path : "";
}

int type_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return kNcclUint8;
    case DType::kInt8:
      return kNcclInt8;
    case DType::kInt32:
      return kNcclInt32;
    case DType::kUint32:
      return kNcclUint32;
    case DType::kInt64:
      return kNcclInt64;
    case DType::kUint64:
      return kNcclUint64;
    case DType::kFloat16:
      return kNcclFloat16;
    case DType::kBFloat16:
      return kNcclBfloat16;
    case DType::kFloat32:
      return kNcclFloat32;
    case DType::kFloat64:
      return kNcclFloat64;
    case DType::kBool:
    case DType::kUint16:
    case DType::kInt16:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      break;
  }
  throw Error(ErrorCode::kUnavailable,
              "--raw on a device is NCCL itself, which has no " + std::string(to_string(dtype)));
}

int op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return kNcclAvg;
    case ReduceOp::kMin:
      return kNcclMin;
    case ReduceOp::kMax:
      return kNcclMax;
    case ReduceOp::kProduct:
      return kNcclProd;
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      return kNcclSum;
  }
  return kNcclSum;
}

// Purpose, thread, owner, failure: see the header.
class Opened final : public CudaDevice, public std::enable_shared_from_this<Opened> {
 public:
  explicit Opened(int ordinal)
      : ordinal_(ordinal), cuda_(value_of(open_cuda(path_of("HVRUN_CUDA_LIBRARY")))) {
    DeviceHandle handle = 0;
    check(cuda_.Init(0), "cuInit");
    check(cuda_.DeviceGet(&handle, ordinal), "cuDeviceGet");
    check(cuda_.DevicePrimaryCtxRetain(&context_, handle), "cuDevicePrimaryCtxRetain");
    check(cuda_.CtxPushCurrent(context_), "cuCtxPushCurrent");  // this thread's from now on
    check(cuda_.StreamCreateWithPriority(&stream_, kStreamNonBlocking, 0), "cuStreamCreate");
  }
  ~Opened() override {
    if (comm_) (void)nccl_.CommDestroy(comm_);
    (void)cuda_.StreamDestroy(stream_);
  }

  int ordinal() const override { return ordinal_; }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    Address address = 0;
    check(cuda_.MemAlloc(&address, bytes), "cuMemAlloc");
    return {reinterpret_cast<void*>(address), [self = shared_from_this()](void* memory) {
              (void)self->cuda_.MemFree(reinterpret_cast<Address>(memory));
            }};
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    check(cuda_.MemcpyAsync(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes,
                            stream_),
          "cuMemcpyAsync");
    check(cuda_.StreamSynchronize(stream_), "cuStreamSynchronize");
  }

  void start_plain(World& world) override {
    if (comm_) return;
    nccl_ = value_of(open_nccl(path_of("HVRUN_NCCL_LIBRARY")));
    UniqueId id{};
    if (world.rank() == 0) check_nccl(nccl_.GetUniqueId(&id), "ncclGetUniqueId");
    TensorView bytes{&id, DType::kUint8, {sizeof id}};
    world.broadcast("hvbench.id", bytes, 0).wait();
    Config config;
    check_nccl(nccl_.CommInitRankConfig(&comm_, world.size(), id, world.rank(), &config),
               "ncclCommInitRankConfig");
    settle();
  }
  void plain_allreduce(const TensorView& tensor, ReduceOp op) override {
    check_nccl(nccl_.AllReduce(tensor.data, tensor.data, static_cast<std::size_t>(tensor.count()),
                               type_of(tensor.dtype), op_of(op), comm_, stream_),
               "ncclAllReduce");
    settle();
    check(cuda_.StreamSynchronize(stream_), "cuStreamSynchronize");
  }

 private:
  void settle() {
    NcclCode state = kNcclInProgress;
    while (state == kNcclInProgress) {
      check_nccl(nccl_.CommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
      if (state == kNcclInProgress) std::this_thread::yield();
    }
    check_nccl(state, "NCCL");
  }
  static void check(CudaCode code, const char* call) {
    if (code == kCudaSuccess) return;
    throw Error(ErrorCode::kSystem, std::string(call) + ": error " + std::to_string(code));
  }
  void check_nccl(NcclCode code, const char* call) const {
    if (code == kNcclSuccess || code == kNcclInProgress) return;
    throw Error(ErrorCode::kSystem, std::string(call) + ": " + nccl_.GetErrorString(code));
  }

  const int ordinal_;
  const CudaApi cuda_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  NcclApi nccl_{};
  Comm comm_ = nullptr;
};

}  // namespace

std::shared_ptr<CudaDevice> CudaDevice::open(const World& world) {
  return std::make_shared<Opened>(world.device());
}

}  // namespace hv::bench
