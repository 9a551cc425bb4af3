// Worlds inside one process: threads as ranks, over the in-process data plane and store.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/client.h"
#include "runtime/world.h"

namespace hv::tests {

struct InprocOptions {
  int size = 2;
  int per_host = 64;  // ranks on each pretend host
  runtime::Knobs knobs = {};
};

// One world per rank, made at once. The store of each rank can end the epoch for all.
struct InprocWorlds {
  std::vector<World> worlds;
  std::vector<std::shared_ptr<rendezvous::Store>> stores;
};

inline InprocWorlds make_inproc_worlds(const InprocOptions& options) {
  auto hub = rendezvous::make_local_hub(options.size);
  auto planes = runtime::make_inproc_data_planes(options.size, options.per_host);
  InprocWorlds made;
  std::vector<base::Result<World>> results(options.size, base::fail(base::Error{}));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    made.stores.push_back(rendezvous::open_local_store(hub, rank));
    threads.emplace_back([&, rank, store = made.stores.back()] {
      runtime::WorldImpl::Parts parts;
      parts.plane = planes[rank];
      for (int peer = 0; peer < options.size; ++peer) {
        parts.hosts.push_back("h" + std::to_string(peer / options.per_host));
      }
      parts.store = store;
      parts.knobs = options.knobs;
      results[rank] = runtime::WorldImpl::make(std::move(parts),
                                               base::Deadline::after(std::chrono::seconds(20)));
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& result : results) {
    if (!result) throw std::runtime_error(base::describe(result.error()));
    made.worlds.push_back(std::move(*result));
  }
  return made;
}

// Runs `body` for every rank in a thread of its own and hands on the first exception.
inline void run_ranks(const InprocOptions& options, const std::function<void(World&)>& body) {
  auto made = make_inproc_worlds(options);
  std::vector<std::exception_ptr> thrown(options.size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        World world = std::move(made.worlds[rank]);
        body(world);
        world.shutdown();
      } catch (...) {
        thrown[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace hv::tests
