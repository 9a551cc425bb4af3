// Communicator: NCCL's, of one process set, from the first meeting of its ranks on.
//
// Thread: the baton holder's; the meeting has a thread of its own, which only talks to the store.
// Owner: the backend, which also ends what comes out of take(). Failure: Results; never blocks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/backend/nccl/device.h"
#include "runtime/backend/nccl/meeting.h"

namespace hv::runtime::nccl {

class Communicator {
 public:
  struct Parts {
    std::shared_ptr<Device> device;
    std::shared_ptr<const NcclApi> api;
    const GpuOptions* options = nullptr;
    void* buffer = nullptr;
    std::size_t buffer_bytes = 0;
    bool can_register = false;
  };
  Communicator(Parts parts, std::int32_t set, std::vector<int> ranks);
  ~Communicator();

  // Moves on; true once it can be used.
  base::Result<bool> ready();
  // Whether nothing of the last group is left to do; errors of NCCL come out here.
  base::Result<bool> settled();
  // NCCL's code of a call, as an error; "in progress" is none.
  base::Result<void> checked(NcclCode code, const char* call) const;

  Comm comm() const { return comm_; }
  const std::vector<int>& ranks() const { return ranks_; }
  int index() const { return index_; }
  Comm take() { return std::exchange(comm_, nullptr); }

 private:
  enum class State { kMeeting, kConnecting, kNaming, kReady };
  Card card() const;
  base::Result<void> connect();
  base::Result<void> connected();
  void name_missing();
  std::string title() const;

  const Parts parts_;
  const std::int32_t set_;
  const std::vector<int> ranks_;
  const int index_;
  const std::string scope_;
  std::vector<std::string> who_;  // of the set
  const base::Deadline deadline_;
  State state_ = State::kMeeting;
  std::thread helper_;
  std::atomic<bool> helped_{false};
  base::Result<Verdict> verdict_ = base::fail(base::Error{});
  std::string missing_;
  Comm comm_ = nullptr;
};

}  // namespace hv::runtime::nccl
