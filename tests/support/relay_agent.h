// The part of an agent that ranks see: a Unix socket, the handshake, and frames passed on to the
// server and back. A thread of its own around one poll loop; for tests of server and client store.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/messages.h"

namespace hv::tests {

class RelayAgent {
 public:
  RelayAgent(const std::vector<rendezvous::Endpoint>& server, const rendezvous::Secret& job,
             const rendezvous::Secret& ranks, std::uint32_t host_index);
  ~RelayAgent();
  const std::string& socket_name() const { return name_; }

 private:
  void run();

  std::string name_;
  base::UniqueFd listening_, wake_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace hv::tests
