// The stand-in driver.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/backend/nccl/cuda_api.h"
#include "tests/gpu/standin/kernels.h"
#include "tests/gpu/standin/standin.h"

namespace {

using namespace hv::runtime::nccl;

constexpr CudaCode kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500;

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    news_.notify_all();
    thread_.join();
  }
  void add(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++added_;
    }
    news_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    const auto until = added_;
    news_.wait(lock, [&] { return done_ >= until; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      news_.wait(lock, [&] { return over_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      ++done_;
      news_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> queue_;
  std::size_t added_ = 0, done_ = 0;
  bool over_ = false;
  std::thread thread_;
};

struct Recorded {
  std::atomic<bool> reached{false};
};
struct StandinEvent {
  std::mutex mutex;
  std::shared_ptr<Recorded> last;  // null: never recorded
};

Worker& worker_of(void* stream) {
  static auto& standard = *new Worker;  // the default stream, for ever
  return stream ? *static_cast<Worker*>(stream) : standard;
}

struct Memory {
  std::mutex mutex;
  std::map<Address, std::pair<std::size_t, int>> blocks;  // size and device, by begin
};
Memory& memory() {
  static auto& all = *new Memory;
  return all;
}

int devices() {
  const long wanted = standin::fault("devices");
  return wanted > 0 ? static_cast<int>(wanted) : 8;
}

thread_local std::deque<Context> current;

int current_device() {
  return current.empty() ? 0
                         : static_cast<int>(reinterpret_cast<std::uintptr_t>(current.back())) - 1;
}

}  // namespace

void standin::enqueue(void* stream, std::function<void()> work) {
  worker_of(stream).add(std::move(work));
}

#define EXPORT extern "C" __attribute__((visibility("default"))) CudaCode

EXPORT cuInit(unsigned) { return standin::fault("no-device") ? kCudaNoDevice : kCudaSuccess; }
EXPORT cuDriverGetVersion(int* version) {
  *version = 13000;
  return kCudaSuccess;
}
EXPORT cuGetErrorName(CudaCode code, const char** name) {
  *name = code == kCudaNoDevice   ? "CUDA_ERROR_NO_DEVICE"
          : code == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE"
                                  : "CUDA_ERROR";
  return kCudaSuccess;
}
EXPORT cuGetErrorString(CudaCode code, const char** text) {
  *text = code == kCudaNoDevice ? "no CUDA-capable device is detected" : "it went wrong";
  return kCudaSuccess;
}
EXPORT cuDeviceGetCount(int* number) {
  *number = devices();
  return kCudaSuccess;
}
EXPORT cuDeviceGet(DeviceHandle* device, int ordinal) {
  *device = ordinal;
  return ordinal < devices() ? kCudaSuccess : kInvalidValue;
}
EXPORT cuDeviceGetName(char* name, int size, DeviceHandle) {
  std::snprintf(name, static_cast<std::size_t>(size), "Stand-in");
  return kCudaSuccess;
}
EXPORT cuDeviceGetUuid_v2(Uuid* uuid, DeviceHandle device) {
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return kCudaSuccess;
}
EXPORT cuDevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  *context = reinterpret_cast<Context>(static_cast<std::uintptr_t>(device) + 1);
  return kCudaSuccess;
}
EXPORT cuDevicePrimaryCtxRelease_v2(DeviceHandle) { return kCudaSuccess; }
EXPORT cuCtxPushCurrent_v2(Context context) {
  current.push_back(context);
  return kCudaSuccess;
}
EXPORT cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return kInvalidValue;
  *context = current.back();
  current.pop_back();
  return kCudaSuccess;
}
EXPORT cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kCudaSuccess;
}
EXPORT cuStreamCreateWithPriority(Stream* stream, unsigned, int) {
  *stream = reinterpret_cast<Stream>(new Worker);
  return kCudaSuccess;
}
EXPORT cuStreamDestroy_v2(Stream stream) {
  delete reinterpret_cast<Worker*>(stream);
  return kCudaSuccess;
}
EXPORT cuStreamIsCapturing(Stream, int* captures) {
  *captures = standin::fault("capture") ? 1 : 0;
  return kCudaSuccess;
}
EXPORT cuStreamSynchronize(Stream stream) {
  worker_of(stream).drain();
  return kCudaSuccess;
}
EXPORT cuEventCreate(Event* event, unsigned) {
  *event = reinterpret_cast<Event>(new StandinEvent);
  return kCudaSuccess;
}
EXPORT cuEventDestroy_v2(Event event) {
  delete reinterpret_cast<StandinEvent*>(event);
  return kCudaSuccess;
}
EXPORT cuEventRecord(Event event, Stream stream) {
  auto recorded = std::make_shared<Recorded>();
  auto& of = *reinterpret_cast<StandinEvent*>(event);
  {
    std::lock_guard lock(of.mutex);
    of.last = recorded;
  }
  standin::enqueue(stream, [recorded] { recorded->reached = true; });
  return kCudaSuccess;
}
EXPORT cuEventQuery(Event event) {
  auto& of = *reinterpret_cast<StandinEvent*>(event);
  std::lock_guard lock(of.mutex);
  return !of.last || of.last->reached ? kCudaSuccess : kCudaNotReady;
}
EXPORT cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  auto& of = *reinterpret_cast<StandinEvent*>(event);
  std::lock_guard lock(of.mutex);
  if (of.last) {
    standin::enqueue(stream, [recorded = of.last] {
      while (!recorded->reached) rest();
    });
  }
  return kCudaSuccess;
}
EXPORT cuMemAlloc_v2(Address* address, std::size_t bytes) {
  void* block = nullptr;
  if (::posix_memalign(&block, 256, bytes) != 0) return kOutOfMemory;
  standin::count("alloc");
  *address = reinterpret_cast<Address>(block);
  std::lock_guard lock(memory().mutex);
  memory().blocks[*address] = {bytes, current_device()};
  return kCudaSuccess;
}
EXPORT cuMemFree_v2(Address address) {
  standin::count("free");
  {
    std::lock_guard lock(memory().mutex);
    if (memory().blocks.erase(address) == 0) return kInvalidValue;
  }
  std::free(reinterpret_cast<void*>(address));
  return kCudaSuccess;
}
EXPORT cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  standin::enqueue(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  return kCudaSuccess;
}
EXPORT cuPointerGetAttribute(void* value, int attribute, Address address) {
  std::lock_guard lock(memory().mutex);
  auto block = memory().blocks.upper_bound(address);
  if (attribute != kPointerDeviceOrdinal || block == memory().blocks.begin()) return kInvalidValue;
  --block;
  if (address >= block->first + block->second.first) return kInvalidValue;
  std::memcpy(value, &block->second.second, sizeof(int));
  return kCudaSuccess;
}
EXPORT cuModuleLoadData(Module* module, const void* image) {
  *module = reinterpret_cast<Module>(1);
  return image ? kCudaSuccess : kInvalidValue;
}
EXPORT cuModuleGetFunction(Function* function, Module, const char* name) {
  const auto kernel = standin::find_kernel(name);
  *function = reinterpret_cast<Function>(kernel);
  return kernel ? kCudaSuccess : kNotFound;
}
EXPORT cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned, unsigned threads,
                      unsigned, unsigned, unsigned, Stream stream, void** arguments, void**) {
  if (blocks == 0) return kInvalidValue;
  standin::count("launch");
  const auto kernel = reinterpret_cast<standin::Kernel>(function);
  auto args = std::make_shared<PackArgs>(*static_cast<const PackArgs*>(arguments[0]));
  standin::enqueue(stream, [=] {
    if (const long ms = standin::fault("slow")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    }
    standin::run_kernel(kernel, *args, blocks, threads);
  });
  return kCudaSuccess;
}
