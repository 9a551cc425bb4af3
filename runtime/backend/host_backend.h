// The data plane of host memory: what init builds once per world, and the backend over it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"
#include "runtime/backend/backend.h"
#include "runtime/collective/select.h"
#include "runtime/topology.h"
#include "runtime/transport/local_group.h"
#include "runtime/transport/transport.h"

namespace hv::runtime {

class CommunicatorImpl;

// The listening side, opened before join() so that its address can be handed in.
struct DataListener {
  base::UniqueFd tcp;  // none when all ranks share a host
  std::vector<rendezvous::Endpoint> endpoints;
  base::UniqueFd segment_socket;  // abstract Unix, for LocalGroup
  std::string segment_name;
};
struct DataListenerOptions {
  bool across_hosts = false;
  std::vector<std::string> addresses;  // numeric, of this host, best first
  std::uint16_t port_low = 0, port_high = 0;
};
base::Result<DataListener> open_data_listener(const DataListenerOptions& options);

// After join(): groups, flags, links. `secret` authenticates peers on both sockets. Links across
// hosts connect when first used.
struct DataPlane {
  Topology topology;
  std::shared_ptr<LocalGroup> local;     // of this host; size 1 groups too
  std::shared_ptr<Transport> transport;  // across hosts; null on one host
  Tuning tuning;                         // equal on all ranks
};
base::Result<DataPlane> make_data_plane(DataListener listener,
                                        const std::vector<rendezvous::PeerInfo>& peers, int rank,
                                        const rendezvous::Secret& secret, base::Deadline deadline);
// For tests: `size` ranks as threads of one process, `per_host` of them on each pretend host.
std::vector<DataPlane> make_inproc_data_planes(int size, int per_host, const Tuning& tuning = {});
// The same with any number of ranks per host.
std::vector<DataPlane> make_inproc_data_planes(const std::vector<int>& ranks_per_host,
                                               const Tuning& tuning = {});

// Collective. Blocks until the ranks of this host share their slots. An allgather's op.output has
// room for everything (counts of all ranks); a broadcast's tensor is in op.output on every rank.
base::Result<std::unique_ptr<Backend>> make_host_backend(DataPlane plane, base::Deadline deadline);
// The same for a process set, with memory and messages of its own. Collective over all ranks of the
// world; null on those that are not in the set. Leaves the transport to the world's backend.
base::Result<std::unique_ptr<Backend>> make_host_backend(DataPlane plane, std::int32_t set,
                                                         const std::vector<int>& ranks,
                                                         base::Deadline deadline);

// Lets a caller's thread drive the engine: takes the baton, runs `begin`, and moves everything
// (other batches too) until `finished` says so or the world has failed. Implemented by the engine;
// tests implement it with a bare backend.
class Pump {
 public:
  virtual ~Pump() = default;
  virtual base::Result<void> run(const std::function<void()>& begin,
                                 const std::function<bool()>& finished) = 0;
};

// The raw communicator number `id` of this world. On one host its calls touch neither baton nor
// engine: own segment, own flags. Across hosts they run as coroutines under the pump.
base::Result<std::shared_ptr<CommunicatorImpl>> make_communicator(DataPlane plane, int id,
                                                                  Pump& pump,
                                                                  base::Deadline deadline);

}  // namespace hv::runtime
