// The agent's end of its prober: the child that diagnoses. Orders go in and answers come out as
// frames over a socket pair; the agent looks into none of them.
//
// Thread: the agent's. Owner: the agent. Failure: the prober's end is passed on as kInvalid.
#pragma once

#include <functional>
#include <memory>

#include "launcher/agent/poller.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/frame_stream.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class ProberLink {
 public:
  using Forward = std::function<void(const rendezvous::FromProber&)>;

  // Forks. `secret` is the probers' own; `host` is this host's index in the plan.
  static base::Result<std::unique_ptr<ProberLink>> start(const rendezvous::Secret& secret,
                                                         std::uint32_t host, Forward forward);

  void watch(Poller& poller);
  void deliver(rendezvous::ToProber message);
  bool ended() const { return ended_; }

 private:
  ProberLink(base::UniqueFd socket, Forward forward);
  void on_ready(short revents);

  rendezvous::FrameStream stream_;
  Forward forward_;
  bool ended_ = false;
};

}  // namespace hv::launcher
