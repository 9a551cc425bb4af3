// Timeline: has the agents send what their ranks finish, brings all clocks onto ours, writes one
// file for all ranks.
//
// Thread: the io_context's. Owner: the supervisor. Failure: of the file, told to who asked for it;
// when it happens later it is logged once and the timeline ends. The job goes on.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/clock_offset.h"
#include "launcher/plan.h"
#include "launcher/timeline_file.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class Timeline {
 public:
  using Tell = std::function<void(const rendezvous::Tracing&)>;  // all agents
  using Done = std::function<void(const base::Result<void>&)>;

  Timeline(boost::asio::io_context& io, const Plan& plan, Tell tell);

  base::Result<void> start(const std::string& path, bool mark_cycles);
  void stop(Done done);  // `done` when all that has finished up to now is in the file
  // For agents that come later than the start.
  std::optional<rendezvous::Tracing> tracing() const;

  void on_traced(std::uint32_t host, const rendezvous::Traced& traced);
  ClockOffset& clock(std::uint32_t host) { return clocks_[host]; }

 private:
  void close();
  void write();

  Tell tell_;
  std::vector<std::string> hosts_;  // per rank
  std::vector<ClockOffset> clocks_;
  boost::asio::steady_timer timer_;
  std::optional<TimelineFile> file_;
  rendezvous::Tracing tracing_;
  std::size_t unfinished_ = 0;  // hosts that have not sent their last since stop()
  std::vector<Done> waiting_;
  std::vector<std::uint64_t> dropped_;  // per rank
};

std::int64_t steady_us();

}  // namespace hv::launcher
