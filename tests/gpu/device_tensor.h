// Tensors in the memory of the stand-in device, and worlds that use it.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hv/hv.h"
#include "runtime/backend/nccl/cuda_api.h"
#include "tests/gpu/standin/standin.h"
#include "tests/support/inproc_world.h"

extern "C" {
int cuCtxPushCurrent_v2(hv::runtime::nccl::Context context);
int cuCtxPopCurrent_v2(hv::runtime::nccl::Context* context);
int cuDevicePrimaryCtxRetain(hv::runtime::nccl::Context* context, int device);
int cuMemAlloc_v2(hv::runtime::nccl::Address* address, std::size_t bytes);
int cuMemFree_v2(hv::runtime::nccl::Address address);
int cuStreamCreateWithPriority(hv::runtime::nccl::Stream* stream, unsigned flags, int priority);
int cuStreamDestroy_v2(hv::runtime::nccl::Stream stream);
int cuStreamSynchronize(hv::runtime::nccl::Stream stream);
}

namespace hv::test {

// The host may look into this memory while no stream works on it.
class DeviceTensor {
 public:
  DeviceTensor(int device, DType dtype, Shape shape, std::size_t skip = 0)
      : view_{nullptr, dtype, std::move(shape), device} {
    runtime::nccl::Context context = nullptr;
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxPushCurrent_v2(context);
    cuMemAlloc_v2(&address_, view_.bytes() + skip + 1);
    cuCtxPopCurrent_v2(&context);
    view_.data = reinterpret_cast<std::byte*>(address_) + skip;
  }
  static DeviceTensor filled(int device, DType dtype, const std::vector<std::byte>& bytes,
                             std::size_t skip = 0) {
    DeviceTensor tensor(device, dtype, {static_cast<std::int64_t>(bytes.size() / size_of(dtype))},
                        skip);
    if (!bytes.empty()) std::memcpy(tensor.view_.data, bytes.data(), bytes.size());
    return tensor;
  }
  ~DeviceTensor() {
    if (address_ != 0) cuMemFree_v2(address_);
  }
  DeviceTensor(DeviceTensor&& from) noexcept
      : view_(std::move(from.view_)), address_(std::exchange(from.address_, 0)) {}
  DeviceTensor& operator=(DeviceTensor&&) = delete;

  const TensorView& view() const { return view_; }
  TensorView on(void* stream) const {
    TensorView ordered = view_;
    ordered.stream = stream;
    return ordered;
  }
  std::vector<std::byte> bytes() const { return bytes_of(view_); }
  static std::vector<std::byte> bytes_of(const TensorView& tensor) {
    std::vector<std::byte> copy(tensor.bytes());
    if (!copy.empty()) std::memcpy(copy.data(), tensor.data, copy.size());
    return copy;
  }
  template <class T>
  std::span<T> values() {
    return {static_cast<T*>(view_.data), static_cast<std::size_t>(view_.count())};
  }

 private:
  TensorView view_;
  runtime::nccl::Address address_ = 0;
};

struct TestStream {
  TestStream() { cuStreamCreateWithPriority(&stream, 1, 0); }
  ~TestStream() { cuStreamDestroy_v2(stream); }
  void synchronize() { cuStreamSynchronize(stream); }
  runtime::nccl::Stream stream = nullptr;
};

inline runtime::Knobs gpu_knobs() {
  runtime::Knobs knobs;
  knobs.gpu_plugin = HV_STANDIN_PLUGIN;
  knobs.cuda_library = HV_STANDIN_CUDA;
  knobs.nccl_library = HV_STANDIN_NCCL;
  knobs.fusion_bytes = 1 << 20;
  return knobs;
}
inline tests::InprocOptions gpu_ranks(std::vector<int> hosts) {
  auto options = tests::on_hosts(std::move(hosts));
  options.knobs = gpu_knobs();
  return options;
}

// Faults of the stand-in, while it lives.
struct Faults {
  explicit Faults(const char* faults) { standin_set_faults(faults); }
  ~Faults() { standin_set_faults(""); }
};

}  // namespace hv::test
