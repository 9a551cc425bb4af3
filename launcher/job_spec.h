// JobSpec: what the user asked for, as a value. Made by apps/hvrun from the command line; nothing
// below apps knows about flags.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/diagnose/nic_filter.h"
#include "launcher/line_printer.h"
#include "launcher/plan.h"
#include "launcher/report.h"
#include "launcher/slurm_job.h"
#include "rendezvous/messages.h"

namespace hv::launcher {

// What the signals of a scheduler mean for the job.
struct Preemption {
  std::vector<int> signals;        // --preempt-signal: these ask it to end
  int exit_code = kExitPreempted;  // --preempt-code
  bool requeue = false;            // --requeue-on-preempt
};

struct JobSpec {
  int np = 0;                            // 0: all slots
  std::vector<HostSpec> hosts;           // empty: this machine
  std::string program;                   // as typed
  std::vector<std::string> argv;         // argv[0] = program as typed
  std::string working_directory;         // absolute
  bool working_directory_given = false;  // by --wdir

  // Environment: -x VAR or -x VAR=value, in the order given; globs allowed in VAR.
  std::vector<std::string> export_names;
  std::vector<rendezvous::KeyValue> export_values;
  bool inherit_environment = true;  // --no-env

  std::string ssh_identity_file;
  int ssh_port = 0;
  std::optional<LauncherKind> launcher;   // --launcher; none: decided by what is found
  std::optional<SlurmJob> slurm;          // the job that is used, if one is
  std::vector<std::string> launch_agent;  // a program that reaches hosts instead of ssh
  std::vector<std::string> ssh_options;   // -o style, from --ssh-option
  std::uint16_t port_low = 0, port_high = 0;
  std::string advertise_address;
  diagnose::NicFilter nics;   // --nic
  std::uint32_t fanout = 32;  // --fanout: above that many hosts links are relayed; 0: never

  Preemption preemption;  // within Slurm

  std::string output_directory;          // --output-filename
  std::optional<rendezvous::Bind> bind;  // none: see choose_bind
  bool report_bindings = false;
  bool oversubscribe = false;  // more ranks than slots

  PrefixStyle prefix;
  bool to_terminal = false;  // somebody sees what ranks print as they print it
  std::string timeline;      // a file for all ranks; empty: none until a rank asks for one
  bool timeline_mark_cycles = false;
  std::vector<int> show_ranks;    // on the console; empty: all
  bool input_to_all = false;      // hvrun's standard input goes to all ranks,
  std::optional<int> input_rank;  // or to one; neither: it is not read
  std::chrono::milliseconds start_timeout{30000};
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds beat{1000};
  std::chrono::milliseconds lost_after{5000};
  std::chrono::milliseconds slowest_every{60000};  // names the rank that is waited for; 0: never
  bool verbose = false;
  bool dry_run = false;
};

}  // namespace hv::launcher
