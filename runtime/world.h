// WorldImpl: one rank's runtime during one epoch: contract, store, data plane, engine.
//
// Thread: any. Owner: the user's World objects and, until it is stopped, nobody else. Failure:
// Result from join() and make(); afterwards the engine's first cause.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hv/hv.h"
#include "rendezvous/contract.h"
#include "rendezvous/server_thread.h"
#include "rendezvous/store.h"
#include "runtime/engine.h"
#include "runtime/process_sets.h"

namespace hv::runtime {

class WorldImpl {
 public:
  struct Parts {
    DataPlane plane;
    std::vector<std::string> hosts;  // per rank, as the user named them
    std::shared_ptr<rendezvous::Store> store;
    std::shared_ptr<rendezvous::ServerThread> server;  // of rank 0, if no launcher has one
    Knobs knobs;
    std::vector<std::unique_ptr<Backend>> backends;  // empty: the host backend
    std::optional<std::string> recorder = {};        // see EngineParts
    std::vector<std::vector<int>> process_sets;      // to begin with
    std::uint32_t generation = 0;                    // of worlds in this epoch
    int device = -1;  // ordinal of this rank's GPU; -1: by local rank
  };
  // What init() does, with the environment as an argument. `identity` tells hosts apart; tests
  // pretend with it.
  static base::Result<World> join(const rendezvous::Getenv& getenv, std::string identity,
                                  const InitOptions& options = {});
  static base::Result<World> make(Parts parts, base::Deadline deadline);

  explicit WorldImpl(Parts parts);
  ~WorldImpl();

  const Topology& topology() const { return plane_.topology; }
  const std::string& host() const { return hosts_[topology().rank]; }
  Handle submit(Op op);
  Handle submit_group(std::string_view name, std::vector<Op> ops);
  std::shared_ptr<HandleState> make_handle() const;

  const ProcessSets& sets() const { return sets_; }
  // Collective over all ranks, blocking.
  base::Result<ProcessSets::Set> add_set(const std::vector<int>& ranks);
  base::Result<void> remove_set(std::int32_t id);

  // The GPU of this rank, which the first call opens.
  base::Result<Gpu*> gpu() const { return engine_->gpu(); }

  std::shared_ptr<CommunicatorImpl> communicator();
  void ask_timeline(bool on, const std::string& path, bool mark_cycles);
  void shutdown();

 private:
  base::Result<void> start(EngineParts parts, base::Deadline deadline);
  std::string who(int rank) const;
  GpuOptions gpu_options() const;
  void order(std::vector<Op>& ops) const;
  base::Result<std::int64_t> agree_on(Op op);

  DataPlane plane_;
  ProcessSets sets_;
  std::vector<std::string> hosts_;
  Knobs knobs_;
  const std::uint32_t generation_;
  const int device_;
  std::shared_ptr<rendezvous::ServerThread> server_;
  std::shared_ptr<rendezvous::Store> store_;
  std::shared_ptr<Engine> engine_;
  std::atomic<int> communicators_{0};
  std::mutex end_mutex_;
  bool ended_ = false;
  const pid_t process_;
};

// Boot id and namespaces: equal for ranks that can share memory.
std::string host_identity();

}  // namespace hv::runtime
