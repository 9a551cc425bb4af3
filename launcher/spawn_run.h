// SpawnRun: what all spawners share of one run(): how many hosts are being started at a time, and
// who has ended.
//
// Thread: the io_context's. Owner: the spawner's run().
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>

#include "launcher/plan.h"
#include "launcher/spawner.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

class SpawnRun {
 public:
  SpawnRun(boost::asio::any_io_executor executor, const std::vector<HostPlan>& hosts,
           SpawnEvents events, int at_a_time);

  // Returns when one more host may be started.
  boost::asio::awaitable<void> may_start(std::uint32_t host);
  // Returns when every host has ended.
  boost::asio::awaitable<void> all_ended();

  // Of one host, in this order; ended() exactly once, without running() if it never ran.
  std::shared_ptr<rendezvous::Server::StreamInput> on_stream(std::uint32_t host,
                                                             rendezvous::Server::ByteStream stream);
  void running(std::uint32_t host);
  void ended(std::uint32_t host, base::Result<int> how);

 private:
  enum class State { kWaiting, kStarting, kRunning, kEnded };
  int count(State state) const;
  boost::asio::awaitable<void> change();

  SpawnEvents events_;
  int at_a_time_;
  std::map<std::uint32_t, State> hosts_;
  boost::asio::steady_timer changed_;
};

}  // namespace hv::launcher
