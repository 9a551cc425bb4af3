// What the runtime finds in libhv_nccl.so.
#include "rendezvous/base/text.h"
#include "runtime/backend/nccl/nccl_backend.h"

namespace hv::runtime::nccl {
namespace {

// Purpose: the Gpu seam over CUDA and NCCL. Thread: any, but for its backend. Owner: device,
// backend. Failure: as its parts.
class NcclGpu final : public Gpu {
 public:
  NcclGpu(std::shared_ptr<Device> device, std::shared_ptr<const NcclApi> api,
          std::unique_ptr<NcclBackend> backend)
      : device_(std::move(device)), api_(std::move(api)), backend_(std::move(backend)) {}

  int device() const override { return device_->ordinal(); }
  std::string describe() const override {
    return "GPU " + std::to_string(device_->ordinal()) + " (" + device_->name() + "), NCCL " +
           nccl_version_text(api_->version) + " (" + api_->path + ")";
  }
  base::Result<void> check(const TensorView& tensor) const override {
    return device_->check(tensor);
  }
  base::Result<std::shared_ptr<GpuPoint>> mark(void* stream) override {
    if (auto ok = device_->refuse_capture(static_cast<Stream>(stream)); !ok) {
      return base::fail(ok.error());
    }
    return device_->record(static_cast<Stream>(stream));
  }
  base::Result<std::shared_ptr<void>> allocate(std::size_t bytes) override {
    return device_->allocate(bytes);
  }
  base::Result<void> copy(void* to, const void* from, std::size_t bytes, GpuPoint* point) override {
    return device_->copy(to, from, bytes, point);
  }
  Backend& backend() override { return *backend_; }
  void forget(std::int32_t set) override { backend_->forget(set); }

 private:
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<const NcclApi> api_;
  const std::unique_ptr<NcclBackend> backend_;
};

GpuOpened open(const GpuOptions& options) {
  auto device = Device::open(options.driver, options.device, options.local_rank);
  if (!device) return base::fail(device.error());
  auto api = open_nccl(options.nccl);
  if (!api) return base::fail(api.error());
  auto shared = std::make_shared<const NcclApi>(std::move(*api));
  auto backend = NcclBackend::make(*device, shared, options);
  if (!backend) return base::fail(backend.error());
  return std::make_shared<NcclGpu>(std::move(*device), std::move(shared), std::move(*backend));
}

}  // namespace
}  // namespace hv::runtime::nccl

extern "C" {

__attribute__((visibility("default"))) const char* hv_gpu_seam() {
  static const std::string text = hv::runtime::gpu_seam();
  return text.c_str();
}

__attribute__((visibility("default"))) void hv_gpu_open(const hv::runtime::GpuOptions& options,
                                                        hv::runtime::GpuOpened* opened) {
  *opened = hv::runtime::nccl::open(options);
}
}
