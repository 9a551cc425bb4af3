// What a benchmark of device tensors needs of CUDA and NCCL besides the library's own use of them:
// memory, copies, and a plain NCCL loop to compare with. Opened at run time, as the library does.
#pragma once

#include <memory>

#include "hv/hv.h"

namespace hv::bench {

// Purpose: this rank's GPU. Thread: the caller's. Owns a stream; memory keeps the device. Throws
// hv::Error.
class CudaDevice {
 public:
  static std::shared_ptr<CudaDevice> open(const World& world);
  virtual ~CudaDevice() = default;
  virtual int ordinal() const = 0;
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // done when it returns

  // A communicator beside the library's. Collective. Only allreduce of types that NCCL has.
  virtual void start_plain(World& world) = 0;
  virtual void plain_allreduce(const TensorView& tensor, ReduceOp op) = 0;  // done when it returns
};

}  // namespace hv::bench
