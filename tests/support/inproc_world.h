// Worlds inside one process: threads as ranks, over the in-process data plane and store.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
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
  std::vector<int> hosts = {};  // ranks of each, instead of size and per_host
  runtime::Tuning tuning = {};
  std::vector<std::vector<int>> process_sets = {};
  std::vector<int> devices = {};  // of each rank; empty: by local rank

  std::vector<int> ranks_per_host() const {
    if (!hosts.empty()) return hosts;
    std::vector<int> even;
    for (int left = size; left > 0; left -= per_host) even.push_back(std::min(left, per_host));
    return even;
  }
};
inline InprocOptions on_hosts(std::vector<int> hosts) {
  InprocOptions options;
  options.size = std::accumulate(hosts.begin(), hosts.end(), 0);
  options.hosts = std::move(hosts);
  return options;
}

// One world per rank, made at once. The store of each rank can end the epoch for all.
struct InprocWorlds {
  std::vector<World> worlds;
  std::vector<std::shared_ptr<rendezvous::Store>> stores;
};

inline InprocWorlds make_inproc_worlds(const InprocOptions& options) {
  auto hub = rendezvous::make_local_hub(options.size);
  const std::vector<int> hosts = options.ranks_per_host();
  auto planes = runtime::make_inproc_data_planes(hosts, options.tuning);
  std::vector<std::string> host_of;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    host_of.insert(host_of.end(), hosts[host], "h" + std::to_string(host));
  }
  InprocWorlds made;
  std::vector<base::Result<World>> results(options.size, base::fail(base::Error{}));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    made.stores.push_back(rendezvous::open_local_store(hub, rank));
    threads.emplace_back([&, rank, store = made.stores.back()] {
      runtime::WorldImpl::Parts parts;
      parts.plane = planes[rank];
      parts.hosts = host_of;
      parts.process_sets = options.process_sets;
      parts.store = store;
      parts.knobs = options.knobs;
      if (!options.devices.empty()) parts.device = options.devices[rank];
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
