// The supervisor: carries events from the agents, the spawners, the user and the clock into the
// job's state machine, and its actions back to them.
//
// Thread: the io_context's. Owner: hvrun's main. Failure: ends in the JobOutcome, whatever happens;
// only what cannot even be begun (no port for the server) is an error.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/environment.h"
#include "launcher/job_spec.h"
#include "launcher/output.h"
#include "launcher/plan.h"
#include "launcher/report.h"
#include "launcher/spawner.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct SpawnGroup {  // hosts that are reached in one way
  std::unique_ptr<Spawner> spawner;
  std::vector<HostPlan> hosts;
  bool has_streams = true;  // of their own, as control links
};

struct Job {
  JobSpec spec;
  Plan plan;
  RankEnvironment environment;
  std::vector<SpawnGroup> spawners;
  std::unique_ptr<Sink> files;                  // may be null
  std::function<void(const std::string&)> say;  // a line for the user, on standard error
  bool wants_story = false;
};

struct JobOutcome {
  int exit_code = 0;
  std::optional<Cause> cause;
  int consequences = 0;
  std::string operations;  // what the ranks waited for when it failed, see describe_wait
  bool preempted = false;
  std::optional<std::string> slowest;  // see describe_slowest
  std::string story;                   // as JSON, if wanted
};

// Runs the job to its end, with the io_context.
base::Result<JobOutcome> run_job(boost::asio::io_context& io, Job job);

}  // namespace hv::launcher
