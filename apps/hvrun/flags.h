// What hvrun's options hold as they are typed. options.cc fills it, read_flags.cc makes a JobSpec
// of it.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::apps {

struct Flags {
  // ranks and hosts
  int np = 0;
  std::string hosts, hostfile;
  std::string wdir;
  bool oversubscribe = false;
  std::string bind = "auto";
  int fanout = 32;
  bool report_bindings = false;

  // way to the hosts
  int ssh_port = 0;
  std::string identity;
  std::vector<std::string> ssh_options;
  std::string launcher = "auto";
  std::string launch_agent;
  std::string port_range, advertise;
  std::vector<std::string> nics;

  // environment
  std::vector<std::string> exports;
  bool no_env = false;

  // output
  std::string output;
  std::string prefix = "rank";
  bool no_prefix = false, prefix_time = false;
  std::string show_ranks, input = "none";
  std::string log_level, log_format = "text";
  bool verbose = false;

  // times, in seconds
  double start_timeout = 30, grace = 5, beat = 1, lost_after = 5, slowest_every = 60;

  std::vector<rendezvous::KeyValue> tuning;  // variables
  std::string config_file;

  // preemption
  std::string preempt_signals = "TERM,USR1";
  int preempt_code = 78;
  bool requeue = false;

  // instead of a job
  bool dry_run = false;
  bool check_build = false, probe = false, json = false;
  std::string expect, min_bandwidth;
  bool preflight = false;
  bool version = false, help = false, help_env = false, man = false;
  std::string report;
  bool detach = false, list = false;
  std::string attach, status, stop;  // which job
  std::string completion;            // of which shell
};

}  // namespace hv::apps
