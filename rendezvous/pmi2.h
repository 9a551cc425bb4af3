// The client's side of PMI-2, by which `srun --mpi=pmi2` lets the tasks of a step exchange a few
// words before they can reach each other: a task publishes a name, the others look it up. Lines of
// text over a descriptor that srun has left open.
//
// Thread: the caller's. Failure: kProtocol, kPeerLost or kTimeout with the command.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"

namespace hv::rendezvous {

class Pmi2 {
 public:
  // `fd` is that of PMI_FD and stays open: it is the process's, not ours.
  static base::Result<Pmi2> begin(int fd, int rank, base::Deadline deadline);

  // Known to all tasks of the step from then on. (Not put, fence and get: a fence would wait for
  // all, and not tell who is missing.)
  base::Result<void> publish(std::string_view name, std::string_view value);
  base::Result<std::optional<std::string>> look_up(std::string_view name);  // nullopt: not yet

 private:
  Pmi2(int fd, base::Deadline deadline) : fd_(fd), deadline_(deadline) {}
  base::Result<std::string> ask(std::string_view command, std::string_view arguments);
  base::Result<void> write(std::string_view text) const;
  base::Result<std::string> read(std::size_t size) const;
  base::Result<void> wait(short events) const;

  int fd_;
  base::Deadline deadline_;
};

// "cmd=kvs-get-response;rc=0;value=a;;b;" → key "value" → "a;b". Absent: "".
std::string pmi2_value(std::string_view reply, std::string_view key);

}  // namespace hv::rendezvous
