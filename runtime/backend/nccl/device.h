// Device: the GPU of this rank: its primary context, the stream of our own (high priority), points
// in streams, memory, the pack kernels.
//
// Thread: any. Owner: shared by the plug-in's objects and by everything handed out, so it lives as
// long as any of them. Failure: Results that name the call and what the driver says.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/gpu.h"
#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/kernels.h"

namespace hv::runtime::nccl {

class Device : public std::enable_shared_from_this<Device> {
 public:
  // kUnavailable: driver or device is missing. `wanted`: an ordinal; -1: by local rank.
  static base::Result<std::shared_ptr<Device>> open(const std::string& driver, int wanted,
                                                    int local_rank);
  Device(CudaApi api, int ordinal, DeviceHandle handle, Context context)
      : api_(std::move(api)), ordinal_(ordinal), handle_(handle), context_(context) {}
  ~Device();

  // While it lives, the calling thread works on this device; NCCL finds it so, too.
  class Current {
   public:
    explicit Current(const Device& device) : api_(device.api_) {
      (void)api_.CtxPushCurrent(device.context_);
    }
    ~Current() {
      Context last = nullptr;
      (void)api_.CtxPopCurrent(&last);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaApi& api_;
  };

  // A recorded event, whose event goes back for another use.
  class Point final : public GpuPoint {
   public:
    Point(std::shared_ptr<Device> device, Event event)
        : device_(std::move(device)), event_(event) {}
    ~Point() override;
    base::Result<void> hold_back(void* stream) override;
    base::Result<bool> reached() const;

   private:
    std::shared_ptr<Device> device_;
    Event event_;
  };
  base::Result<std::shared_ptr<Point>> record(Stream stream);

  base::Result<void> check(const TensorView& tensor) const;
  base::Result<void> refuse_capture(Stream stream) const;
  base::Result<std::shared_ptr<void>> allocate(std::size_t bytes);
  base::Result<void> copy(void* to, const void* from, std::size_t bytes, GpuPoint* after);
  base::Result<void> launch(const std::string& kernel, PackArgs args, unsigned blocks);
  base::Result<void> checked(CudaCode code, const char* call) const;

  Stream stream() const { return stream_; }
  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  const std::string& uuid() const { return uuid_; }
  int driver_version() const { return driver_version_; }
  const CudaApi& api() const { return api_; }

 private:
  base::Result<void> prepare();
  void give_back(Event event);

  const CudaApi api_;
  const int ordinal_;
  const DeviceHandle handle_;
  const Context context_;
  Stream stream_ = nullptr;
  Stream copies_ = nullptr;  // for copy()
  std::string name_, uuid_;
  int driver_version_ = 0;
  Module module_ = nullptr;
  std::map<std::string, Function> kernels_;
  std::mutex mutex_;
  std::vector<Event> events_;  // not in use
};

// The compiled kernels.
std::span<const std::byte> kernel_image();

}  // namespace hv::runtime::nccl
