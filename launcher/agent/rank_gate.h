// Where the ranks of this host speak to the agent: an abstract Unix socket. A connection is let in
// when it comes from this user and proves that it holds the ranks' secret; its frames then go to
// the server as they are, numbered by connection.
//
// Thread: the agent's. Owner: the agent. Failure: a bad connection is closed, nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/agent/guest.h"
#include "launcher/agent/poller.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class RankGate {
 public:
  using Forward = std::function<void(const rendezvous::FromRank&)>;

  static base::Result<std::unique_ptr<RankGate>> open(const rendezvous::Secret& rank_secret,
                                                      Forward forward);

  const std::string& name() const { return name_; }  // "@hv-…"
  // `may_read`: the way home has room for more frames.
  void watch(Poller& poller, bool may_read);
  void deliver(const rendezvous::ToRank& message);

 private:
  RankGate(base::UniqueFd listener, std::string name, const rendezvous::Secret& rank_secret,
           Forward forward);
  void accept_all();

  base::UniqueFd listener_;
  std::string name_;
  rendezvous::Secret rank_secret_;
  Forward forward_;
  std::uint32_t last_id_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Guest>> connections_;
};

}  // namespace hv::launcher
