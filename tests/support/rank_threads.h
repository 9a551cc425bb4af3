// Runs the ranks of a pretend job as threads of one process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "rendezvous/base/deadline.h"
#include "runtime/backend/host_backend.h"

namespace hv::test {

inline base::Deadline soon() { return base::Deadline::after(std::chrono::seconds(60)); }

inline void run_ranks(std::vector<runtime::DataPlane> planes,
                      const std::function<void(runtime::DataPlane)>& body) {
  std::vector<std::thread> threads;
  for (auto& plane : planes) {
    threads.emplace_back([&body, plane = std::move(plane)]() mutable { body(std::move(plane)); });
  }
  for (auto& thread : threads) thread.join();
}

// Drives a backend until it is idle.
inline void drain(runtime::Backend& backend) {
  const auto deadline = soon();
  while (!backend.idle() && !deadline.passed()) {
    if (!backend.progress()) std::this_thread::yield();
  }
  EXPECT_TRUE(backend.idle());
}

}  // namespace hv::test
