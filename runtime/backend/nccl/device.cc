#include "runtime/backend/nccl/device.h"

#include <cstdio>
#include <cstdlib>

namespace hv::runtime::nccl {
namespace {

std::string text_of(const CudaApi& api, CudaCode code) {
  const char* name = nullptr;
  const char* text = nullptr;
  (void)api.GetErrorName(code, &name);
  (void)api.GetErrorString(code, &text);
  return std::string(name ? name : "error " + std::to_string(code)) + " (" + (text ? text : "?") +
         ")";
}

std::string mask() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value ? "CUDA_VISIBLE_DEVICES is '" + std::string(value) + "'"
               : "CUDA_VISIBLE_DEVICES is not set";
}

base::Result<int> choose(const CudaApi& api, int wanted, int local_rank) {
  if (const CudaCode code = api.Init(0); code != kCudaSuccess) {
    return base::fail(base::Code::kUnavailable, "there is no device: cuInit of " + api.path +
                                                    " says " + text_of(api, code) + "; " + mask());
  }
  int count = 0;
  if (const CudaCode code = api.DeviceGetCount(&count); code != kCudaSuccess || count == 0) {
    return base::fail(base::Code::kUnavailable,
                      "there is no device: the driver " + api.path + " sees none; " + mask());
  }
  // A rank that sees a single device was given that one (by srun, or a mask of its own); ranks that
  // share one after all are found when they meet.
  const int by_rank = count == 1 ? 0 : local_rank;
  const int ordinal = wanted >= 0 ? wanted : by_rank;
  if (ordinal < count) return ordinal;
  return base::fail(base::Code::kUnavailable,
                    "there is no device for this rank: " +
                        (wanted >= 0 ? "HVRUN_DEVICE is " + std::to_string(wanted)
                                     : "its local rank is " + std::to_string(local_rank)) +
                        ", and " + std::to_string(count) + " are visible; " + mask() +
                        ". Start at most one rank per device, or set HVRUN_DEVICE");
}

}  // namespace

base::Result<std::shared_ptr<Device>> Device::open(const std::string& driver, int wanted,
                                                   int local_rank) {
  auto api = open_cuda(driver);
  if (!api) return base::fail(api.error());
  auto ordinal = choose(*api, wanted, local_rank);
  if (!ordinal) return base::fail(ordinal.error());
  DeviceHandle handle = 0;
  Context context = nullptr;
  CudaCode code = api->DeviceGet(&handle, *ordinal);
  if (code == kCudaSuccess) code = api->DevicePrimaryCtxRetain(&context, handle);
  if (code != kCudaSuccess) {
    return base::fail(base::Code::kUnavailable, "device " + std::to_string(*ordinal) +
                                                    " cannot be used: " + text_of(*api, code) +
                                                    "; " + mask());
  }
  auto device = std::make_shared<Device>(*api, *ordinal, handle, context);
  if (auto ready = device->prepare(); !ready) return base::fail(ready.error());
  return device;
}

base::Result<void> Device::prepare() {
  const Current current(*this);
  Uuid uuid{};
  char name[256] = {};
  int least = 0, greatest = 0;
  (void)api_.DriverGetVersion(&driver_version_);
  (void)api_.DeviceGetName(name, sizeof name, handle_);
  name_ = name;
  if (auto ok = checked(api_.DeviceGetUuid(&uuid, handle_), "cuDeviceGetUuid"); !ok) return ok;
  for (unsigned char byte : uuid.bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    uuid_ += hex;
  }
  (void)api_.CtxGetStreamPriorityRange(&least, &greatest);
  for (Stream* stream : {&stream_, &copies_}) {
    auto made = checked(api_.StreamCreateWithPriority(stream, kStreamNonBlocking, greatest),
                        "cuStreamCreateWithPriority");
    if (!made) return made;
  }
  if (auto ok = checked(api_.ModuleLoadData(&module_, kernel_image().data()), "cuModuleLoadData");
      !ok) {
    base::Error error = ok.error();
    error.code = base::Code::kUnavailable;
    error.text += ": the plug-in has no kernels that device " + std::to_string(ordinal_) + " (" +
                  name_ + ") and driver " + std::to_string(driver_version_ / 1000) + "." +
                  std::to_string(driver_version_ % 1000 / 10) + " can run";
    return base::fail(error);
  }
  for (const char* kernel : {"hv_move_bytes", "hv_move_f16", "hv_move_bf16", "hv_move_f32",
                             "hv_move_f64", "hv_move_f32_f16", "hv_move_f32_bf16"}) {
    auto found = checked(api_.ModuleGetFunction(&kernels_[kernel], module_, kernel), kernel);
    if (!found) return found;
  }
  return {};
}

Device::~Device() {
  {
    const Current current(*this);
    for (Event event : events_) (void)api_.EventDestroy(event);
    if (stream_) (void)api_.StreamDestroy(stream_);
    if (copies_) (void)api_.StreamDestroy(copies_);
  }
  (void)api_.DevicePrimaryCtxRelease(handle_);  // the module goes with it
}

base::Result<void> Device::checked(CudaCode code, const char* call) const {
  if (code == kCudaSuccess) return {};
  return base::fail(base::Code::kSystem, "device " + std::to_string(ordinal_) + ": " + call +
                                             " says " + text_of(api_, code));
}

// ---- streams ---------------------------------------------------------------------------------

base::Result<std::shared_ptr<Device::Point>> Device::record(Stream stream) {
  const Current current(*this);
  Event event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      event = events_.back();
      events_.pop_back();
    }
  }
  if (event == nullptr) {
    auto made = checked(api_.EventCreate(&event, kEventDisableTiming), "cuEventCreate");
    if (!made) return base::fail(made.error());
  }
  auto point = std::make_shared<Point>(shared_from_this(), event);
  if (auto ok = checked(api_.EventRecord(event, stream), "cuEventRecord"); !ok) {
    return base::fail(ok.error());
  }
  return point;
}

void Device::give_back(Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
}

Device::Point::~Point() { device_->give_back(event_); }

base::Result<void> Device::Point::hold_back(void* stream) {
  const Current current(*device_);
  const auto code = device_->api_.StreamWaitEvent(static_cast<Stream>(stream), event_, 0);
  return device_->checked(code, "cuStreamWaitEvent");
}

base::Result<bool> Device::Point::reached() const {
  const Current current(*device_);
  const auto code = device_->api_.EventQuery(event_);
  if (code == kCudaNotReady) return false;
  if (auto ok = device_->checked(code, "cuEventQuery"); !ok) return base::fail(ok.error());
  return true;
}

base::Result<void> Device::refuse_capture(Stream stream) const {
  const Current current(*this);
  int captures = 0;
  const CudaCode code = api_.StreamIsCapturing(stream, &captures);
  if (code == kCudaSuccess && captures == 0) return {};
  return base::fail(base::Code::kInvalidArgument,
                    "the stream is being captured into a CUDA graph. Ranks agree on every "
                    "collective while the program runs, so none can be part of a graph: end the "
                    "capture before it, and launch the graph and the collective one after the "
                    "other on the stream");
}

// ---- memory ----------------------------------------------------------------------------------

base::Result<void> Device::check(const TensorView& tensor) const {
  if (tensor.device != ordinal_) {
    return base::fail(base::Code::kInvalidArgument,
                      "the tensor is on GPU " + std::to_string(tensor.device) +
                          ", and this rank uses GPU " + std::to_string(ordinal_) +
                          " (by its local rank, or by HVRUN_DEVICE)");
  }
  if (tensor.bytes() == 0) return {};
  const Current current(*this);
  int owner = -1;
  const CudaCode code = api_.PointerGetAttribute(&owner, kPointerDeviceOrdinal,
                                                 reinterpret_cast<Address>(tensor.data));
  if (code == kCudaSuccess && owner == ordinal_) return {};
  return base::fail(base::Code::kInvalidArgument,
                    "its data is not in the memory of GPU " + std::to_string(ordinal_) +
                        (code == kCudaSuccess ? ", but of GPU " + std::to_string(owner) : ""));
}

base::Result<std::shared_ptr<void>> Device::allocate(std::size_t bytes) {
  const Current current(*this);
  Address address = 0;
  auto made = checked(api_.MemAlloc(&address, bytes > 0 ? bytes : 1), "cuMemAlloc");
  if (!made) {
    return base::fail(base::Code::kSystem,
                      made.error().text + ", for " + std::to_string(bytes) + " bytes");
  }
  return std::shared_ptr<void>(reinterpret_cast<void*>(address),
                               [device = shared_from_this()](void* memory) {
                                 const Current on(*device);
                                 (void)device->api_.MemFree(reinterpret_cast<Address>(memory));
                               });
}

base::Result<void> Device::copy(void* to, const void* from, std::size_t bytes, GpuPoint* after) {
  if (bytes == 0) return {};
  if (after) {
    if (auto held = after->hold_back(copies_); !held) return held;
  }
  const Current current(*this);
  auto begun = checked(api_.MemcpyAsync(reinterpret_cast<Address>(to),
                                        reinterpret_cast<Address>(from), bytes, copies_),
                       "cuMemcpyAsync");
  if (!begun) return begun;
  return checked(api_.StreamSynchronize(copies_), "cuStreamSynchronize");
}

// ---- kernels ---------------------------------------------------------------------------------

base::Result<void> Device::launch(const std::string& kernel, PackArgs args, unsigned blocks) {
  void* arguments[] = {&args};
  return checked(api_.LaunchKernel(kernels_.at(kernel), blocks, 1, 1, kThreads, 1, 1, 0, stream_,
                                   arguments, nullptr),
                 kernel.c_str());
}

}  // namespace hv::runtime::nccl
