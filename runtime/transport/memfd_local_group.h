// LocalGroup of processes: segments are sealed memfds, passed by the lowest local rank's service.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"
#include "runtime/transport/local_group.h"

namespace hv::runtime {

struct LocalGroupOptions {
  int local_rank = 0;
  std::vector<std::string> names;  // of all local ranks, for messages: "rank 3 on h2 (pid 17)"
  base::UniqueFd listener;         // the lowest local rank's; others leave it empty
  std::string socket_name;         // abstract name of the lowest local rank's listener
};

// Collective: blocks until all local ranks are there; kTimeout otherwise.
base::Result<std::shared_ptr<LocalGroup>> make_memfd_local_group(LocalGroupOptions options,
                                                                 const rendezvous::Secret& secret,
                                                                 base::Deadline deadline);

}  // namespace hv::runtime
