// What the C ABI keeps between calls: the one world of this process, and the handles in use.
//
// Thread: any; one lock each, never held while something waits. Owner: the process. Failure: the
// C++ API's exceptions, which guarded() turns into codes and a text for the calling thread.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "hv/hv.h"
#include "hv/hv_c.h"

namespace hv::runtime {

class CWorld {
 public:
  static CWorld& instance();

  void init(const hv_init_options* options);
  void shutdown();
  bool is_initialized() const;
  World world() const;  // throws kUsage where there is none

  ProcessSet set(hv_set id) const;
  hv_set add_set(const std::vector<int>& ranks);
  void remove_set(hv_set id);
  std::map<hv_set, ProcessSet> sets() const;

 private:
  mutable std::mutex mutex_;
  std::mutex life_;  // held by init, shutdown and changes of the sets
  std::shared_ptr<World> world_;
  std::map<hv_set, ProcessSet> sets_;
};

struct CHandle {
  Handle handle;
  std::mutex mutex;
  std::map<int32_t, Shape> shapes;     // lent to who asked for outputs
  std::atomic<bool> on_stream{false};  // hv_wait_on has returned
};

class CHandles {
 public:
  static CHandles& instance();
  hv_handle add(Handle handle);
  std::shared_ptr<CHandle> find(hv_handle handle) const;  // throws kNotFound
  void release(hv_handle handle);

 private:
  mutable std::mutex mutex_;
  hv_handle last_ = 0;
  std::map<hv_handle, std::shared_ptr<CHandle>> handles_;
};

void set_last_error(const std::string& text);

void* stream_of_this_thread();
void set_stream_of_this_thread(void* stream);

// Runs `call`; what it throws becomes a code.
template <class Call>
hv_status guarded(Call call) {
  try {
    call();
    return HV_OK;
  } catch (const Error& error) {
    set_last_error(error.what());
    return static_cast<hv_status>(error.code());
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return HV_INTERNAL;
  }
}
// The same for what returns a number; -1 where it throws.
template <class Call>
int number_or_minus_one(Call call) {
  int number = -1;
  return guarded([&] { number = call(); }) == HV_OK ? number : -1;
}

}  // namespace hv::runtime
