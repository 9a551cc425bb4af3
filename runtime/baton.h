// Baton: who holds it drives engine, transport and backends. Held for short or long, by the engine
// thread or by a user thread that waits for something.
//
// Thread: any. Taking and giving it costs one atomic operation each while nobody sleeps for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "rendezvous/base/deadline.h"

namespace hv::runtime {

class Baton {
 public:
  bool try_take() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_seq_cst);
  }
  void give() {
    held_.store(false, std::memory_order_seq_cst);
    wake();
  }
  // Sleeps until `enough` holds, the baton is free or the time has passed. `enough` becomes true
  // through another thread that calls wake() afterwards.
  template <class Enough>
  void await(Enough enough, base::Deadline deadline) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const auto stop = [&] { return !held_.load(std::memory_order_seq_cst) || enough(); };
    if (deadline.is_never()) {
      woken_.wait(lock, stop);
    } else {
      woken_.wait_until(lock, deadline.time(), stop);
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
  void wake() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { std::lock_guard lock(mutex_); }  // nobody is between looking and sleeping
    woken_.notify_all();
  }
  bool wanted() const { return sleepers_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<bool> held_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable woken_;
};

}  // namespace hv::runtime
