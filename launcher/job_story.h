// The story of a job for --report: who came up, started and ended when. Times are arguments. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan.h"
#include "launcher/report.h"
#include "launcher/slowest_rank.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

class JobStory {
 public:
  using Time = base::Clock::time_point;
  JobStory(std::string job, const Plan& plan, Time start, std::int64_t wall_ms);

  void agent_up(std::uint32_t host, const rendezvous::AgentHello& hello, const std::string& by,
                Time now);
  void launched(Time now) { launched_ = since(now); }
  void rank_started(const rendezvous::RankStarted& started, Time now);
  void rank_exited(const rendezvous::RankExited& exited, Time now);
  void ended(Time now) { ended_ = since(now); }

  // See describe_slowest.
  std::optional<std::string> slowest(bool always) const;
  // With the plan and how it ended.
  std::string json(const Plan& plan, const std::vector<std::string>& argv, int exit_code,
                   const std::optional<Cause>& cause, int consequences) const;

 private:
  using Seconds = std::optional<double>;  // since the start
  struct Host {
    Seconds up;
    std::string address, link;
    int pid = 0;
  };
  struct Rank {
    std::string host;
    Seconds started, ended;
    std::string cpus;
    rendezvous::RankExited exited;
  };
  double since(Time now) const;
  std::vector<RankWait> waits() const;  // of ranks that have ended

  std::string job_;
  Time start_;
  std::int64_t wall_ms_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  Seconds launched_, ended_;
};

}  // namespace hv::launcher
