// The Slurm job that hvrun was started in, read from its variables, and the decision how to start:
// local, ssh or slurm. Values without I/O; slurm_facts.h asks the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract.h"

namespace hv::launcher {

struct SlurmNode {
  std::string name;
  int tasks = 1;  // that Slurm planned here
  int cpus = 0;   // of the job; 0: not said
  int gpus = 0;   // of the job; 0: none, or not said
};

// How cards go to tasks: --gpus-per-task, --ntasks-per-gpu, --gpu-bind.
struct SlurmGpus {
  enum class Bind : std::uint8_t {
    kNone,     // every task has all cards of its node
    kPerTask,  // `number` cards for each task in turn
    kSingle,   // one card for each `number` tasks in turn
    kMap,      // the cards of `list` in turn
    kMask,     // the same, as bits
  };
  Bind bind = Bind::kNone;
  std::size_t number = 1;
  std::vector<std::uint64_t> list;
};

struct SlurmJob {
  std::string id;
  std::string array_task;  // "100_7": what users know an element of an array by
  std::string step;        // inside an ordinary step of srun; empty in a batch script or salloc
  std::vector<SlurmNode> nodes;  // of the step if there is one; in the order of SLURM_NODEID
  int tasks = 0;                 // of all nodes
  int cpus_per_task = 1;
  bool cpus_asked = false;  // -c was given
  SlurmGpus gpus;
  int task = 0;           // which of the step's tasks this process is
  bool terminal = false;  // srun --pty
  std::string this_node;  // Slurm's name for this host; empty on a login node (salloc)
};

// "job 12", "job 100_7 step 3": for messages.
std::string describe(const SlurmJob& job);

// No SLURM_JOB_ID: nullopt. Inside a step of srun its values win over those of the job. Half a set
// of variables, or lists that do not fit together: kUsage naming the variables.
base::Result<std::optional<SlurmJob>> read_slurm_job(const rendezvous::Getenv& getenv);

// By its name, with or without a domain; end: none of the job's.
std::vector<SlurmNode>::const_iterator find_node(const SlurmJob& job, std::string_view host);

// The nodes as hosts. np = 0: the tasks that Slurm planned. With a larger np, slots grow evenly up
// to the job's cores; a node without cores to spare keeps its tasks.
std::vector<HostSpec> slurm_hosts(const SlurmJob& job, int np);

enum class LauncherKind : std::uint8_t { kLocal, kSsh, kSlurm };
std::string_view to_string(LauncherKind kind);

// --launcher. "auto" is nullopt; an unknown word is kUsage.
base::Result<std::optional<LauncherKind>> parse_launcher(std::string_view word);

enum class SlurmAnswer : std::uint8_t {
  kNone,     // no controller was asked, or none answered
  kRunning,  // the job runs, and is this user's
  kEnded,    // no such job, or it has ended, or is another user's
};

struct LauncherFacts {
  std::optional<LauncherKind> asked;  // --launcher
  base::Result<std::optional<SlurmJob>> job{std::nullopt};
  bool in_job_cgroup = false;  // this process is in the job's own cgroup
  SlurmAnswer answer = SlurmAnswer::kNone;
  std::string host_name;  // of this machine
  bool srun_found = false;
  std::vector<HostSpec> given;  // -H or a hostfile; empty: none
  bool given_local = false;     // each of them is this machine
};

struct LauncherDecision {
  LauncherKind kind = LauncherKind::kLocal;
  std::string reason;       // shown with --verbose: "Slurm job 12 on 4 nodes"
  bool surprising = false;  // worth telling without --verbose, too
};

// Never ssh by mistake inside a live allocation, never srun for variables that an ended job has
// left behind. kUsage when what was asked for cannot be, or when srun started hvrun many times.
base::Result<LauncherDecision> decide_launcher(const LauncherFacts& facts);

}  // namespace hv::launcher
