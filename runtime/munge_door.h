// Where ranks that know nothing but the name of rank 0's node learn the way in: a port that follows
// from the job's number gives everybody who connects a credential of munge. Who is not this user
// cannot open it; the secret inside is random and never follows from anything.
//
// Thread: its own, until it is destroyed. Owner: rank 0. Failure: kUnavailable when none of the
// ports is free.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/listen.h"
#include "rendezvous/messages.h"

namespace hv::runtime {

// One task of a step of srun, by its variables.
struct SlurmTask {
  int rank = 0, size = 1;
  int nodes = 1;
  std::string job, step;
  std::string node, first_node;
};

struct WayIn {
  rendezvous::Secret secret;
  std::vector<rendezvous::Endpoint> servers;
};
std::string spell(const WayIn& way);  // "<secret> addr:port,[addr]:port"
base::Result<WayIn> parse_way(std::string_view said);

class MungeDoor {
 public:
  static base::Result<std::unique_ptr<MungeDoor>> open(const WayIn& way, const SlurmTask& task);
  ~MungeDoor();

 private:
  MungeDoor(std::string said, rendezvous::Listening listening, base::UniqueFd stop);
  void serve();
  void answer(int listening);

  const std::string said_;
  const rendezvous::Listening listening_;
  const base::UniqueFd stop_;
  std::thread thread_;  // last: it uses all of the above
};

// What the door of the task's step says; waits for it to be there.
base::Result<WayIn> enter_munge_door(const SlurmTask& task, base::Deadline deadline);

// The ports to try, in order. Pure.
std::vector<std::uint16_t> door_ports(const SlurmTask& task);

}  // namespace hv::runtime
