// Relay: where agents of other hosts connect whose links go through this agent. Their frames go on
// to hvrun inside FromAgent, and come back inside ToAgent; which way leads to a host behind another
// relay is learned from what comes from there.
//
// Thread: the agent's. Owner: the agent. Failure: a broken link is told to hvrun as closed, and so
// are those behind it. With this object the links of all end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/guest.h"
#include "launcher/agent/poller.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/result.h"
#include "rendezvous/listen.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// A secret for each relay: another that happens to have the same address cannot be taken for it.
rendezvous::Secret relay_secret(const rendezvous::Secret& job, std::uint32_t host);

class Relay {
 public:
  using Forward = std::function<void(const rendezvous::Frame&)>;  // a FromAgent

  static base::Result<std::unique_ptr<Relay>> open(const rendezvous::ListenOptions& options,
                                                   const rendezvous::Secret& secret,
                                                   Forward forward);

  const std::vector<rendezvous::Endpoint>& endpoints() const { return listening_.endpoints; }
  // `may_read`: the way home has room for more frames.
  void watch(Poller& poller, bool may_read);
  void deliver(const rendezvous::ToAgent& message);
  bool is_written() const;  // nothing waits for any agent

 private:
  struct Child {
    std::unique_ptr<Guest> guest;
    std::optional<std::uint32_t> host;  // once it has said hello
  };
  Relay(rendezvous::Listening listening, const rendezvous::Secret& secret, Forward forward);
  void on_frame(Child& child, rendezvous::Frame frame);
  void report_closed(const Child& child);
  void accept_all(int listener);

  rendezvous::Listening listening_;
  rendezvous::Secret secret_;
  Forward forward_;
  std::vector<std::unique_ptr<Child>> children_;
  std::map<std::uint32_t, Child*> ways_;  // host → which child leads there
};

}  // namespace hv::launcher
