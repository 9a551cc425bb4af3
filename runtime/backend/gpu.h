// Gpu: what the runtime asks of this rank's GPU: batches of device tensors, the order between them
// and the caller's streams, memory. Kind: the plug-in libhv_nccl.so, which is opened with the first
// device tensor.
//
// Thread: any, except backend(), which belongs to the baton holder. Owner: the engine; memory and
// points keep what they need. Failure: Results; what ends the work of a batch comes from backend().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/store.h"
#include "runtime/backend/backend.h"

namespace hv::runtime {

// A point in the work of a stream.
class GpuPoint {
 public:
  virtual ~GpuPoint() = default;
  virtual base::Result<void> hold_back(void* stream) = 0;  // until this point is reached
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual int device() const = 0;  // the ordinal of the one device that this rank uses
  virtual std::string describe() const = 0;
  // Whether the tensor is in this device's memory.
  virtual base::Result<void> check(const TensorView& tensor) const = 0;
  // Where the caller's stream is now. kInvalidArgument while it is captured into a graph.
  virtual base::Result<std::shared_ptr<GpuPoint>> mark(void* stream) = 0;
  virtual base::Result<std::shared_ptr<void>> allocate(std::size_t bytes) = 0;
  // Between host and device, after `point` (null: at once). Returns when it is done.
  virtual base::Result<void> copy(void* to, const void* from, std::size_t bytes,
                                  GpuPoint* point) = 0;
  virtual Backend& backend() = 0;
  // Nothing more comes for this process set, and nothing is in flight.
  virtual void forget(std::int32_t set) = 0;
};

struct GpuOptions {
  std::string driver, nccl;  // libraries by path; "": the usual names
  int device = -1;           // ordinal; -1: by local rank
  int rank = 0, local_rank = 0;
  std::vector<std::string> who;            // per rank
  std::vector<std::string> hosts;          // per rank: equal where two share a machine
  std::string scope;                       // begins every key in the store
  std::weak_ptr<rendezvous::Store> store;  // none: a world of one
  std::size_t buffer_bytes = std::size_t{128} << 20;
  std::string compression;                       // "", "fp16" or "bf16": float32 sums travel so
  int ranks_per_id = 256;                        // more ranks than that meet at several unique ids
  std::chrono::milliseconds start_limit{30000};  // until a communicator is up
  std::chrono::milliseconds batch_limit{0};      // until a batch is done; 0: none
  std::chrono::milliseconds abort_limit{5000};   // until an abort must have returned
  // An abort hangs: the process can not go on, and this is the first cause.
  std::function<void(const base::Error&)> stuck;
};

// The plug-in's two symbols. The seam says what both sides were compiled from.
std::string gpu_seam();
inline constexpr char kGpuSeamSymbol[] = "hv_gpu_seam";
inline constexpr char kGpuOpenSymbol[] = "hv_gpu_open";
using GpuSeam = const char* (*)();
using GpuOpened = base::Result<std::shared_ptr<Gpu>>;
using GpuOpen = void (*)(const GpuOptions& options, GpuOpened* opened);

// Finds and opens the plug-in, and with it the GPU. kUnavailable names what is missing, plug-in,
// driver, device or NCCL, and where it was looked for. `plugin`: a path; "": beside the runtime.
GpuOpened open_gpu(const std::string& plugin, const GpuOptions& options);

}  // namespace hv::runtime
