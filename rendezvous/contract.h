// The contract between launcher and rank: the environment variables by which a rank learns its
// place. Written by the launcher (via LaunchOrder), read once by the runtime.
//
//   HVRUN_RANK HVRUN_SIZE HVRUN_LOCAL_RANK HVRUN_LOCAL_SIZE HVRUN_CROSS_RANK HVRUN_CROSS_SIZE
//   HVRUN_EPOCH        number of the plan
//   HVRUN_JOB          short job id, for people
//   HVRUN_HOST         the host as the user named it
//   HVRUN_NUM_HOSTS    hosts of the plan (1: no data-plane listener is opened)
//   HVRUN_SECRET       hex; the ranks' secret, derived from the job's
//   HVRUN_AGENT        abstract Unix socket of the agent ("@hv-…"), or instead
//   HVRUN_SERVER       "addr:port,[v6]:port": the server itself, for a rank without an agent
//   HVRUN_BUILD        build id of launcher and agent
//   HVRUN_ADDRESSES    addresses of this host that peers may use, best first, comma separated
//   HVRUN_DEVICE       the card of this rank, as an ordinal among those that it may see
//   HVRUN_PORT_RANGE   "31000-31015": where ranks listen for each other; unset: any free port
// and the same numbers under the names other tools use: HOROVOD_RANK … HOROVOD_CROSS_SIZE,
// HOROVOD_HOSTNAME, RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK, MASTER_ADDR and
// MASTER_PORT (if master_port is set).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::rendezvous {

struct Contract {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;
  std::uint32_t epoch = 0;
  std::string job;
  std::string host;
  int num_hosts = 1;
  std::string agent_socket;  // empty: use `servers`
  std::vector<Endpoint> servers;
  std::string served_by = "hvrun";  // for messages
  std::optional<Secret> secret;
  std::string build_id;
  std::vector<std::string> addresses;
  std::uint16_t port_low = 0, port_high = 0;  // 0: any
  std::string master_address;
  int master_port = 0;

  bool alone() const { return !secret; }  // no launcher: size 1, no store
};

using Getenv = std::function<std::optional<std::string>(const char*)>;

// Nothing set → alone(). Half set → kUsage naming what is missing. Nothing of ours set, but one of
// several tasks of srun, mpirun, mpiexec, jsrun or torchrun → kUsage with the line to type instead
// (never N worlds of one).
base::Result<Contract> read_contract(const Getenv& getenv);

// The variables of one rank, all the names above.
std::vector<KeyValue> contract_variables(const Contract& contract);

std::string build_id();  // of this binary: version + hash of the protocol-relevant sources

}  // namespace hv::rendezvous
