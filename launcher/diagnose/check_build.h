// `hvrun --check-build`: what this build can do on this machine, as it is found to be: libraries
// are loaded, programs asked, limits read. Nothing is believed and nothing may hurt: foreign code
// runs in children with one time limit for all. Prints nothing.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "launcher/diagnose/check.h"
#include "launcher/diagnose/child.h"
#include "rendezvous/base/deadline.h"

namespace hv::launcher::diagnose {

// Where the kernel tells about itself; other folders in tests.
struct Roots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path shm = "/dev/shm";
  std::filesystem::path agent = {};  // where hvagent should be; empty: beside this program
};

// Takes at most a little longer than `limit`.
CheckTable check_build(const Roots& roots, base::Millis limit = base::Millis(2200));

// The parts of it, in the order of the table.

// A foreign thing to ask, and what its reply means.
struct Probe {
  Question question;
  std::function<std::vector<Check>(const Reply&, base::Millis limit)> judge;
};
std::vector<Probe> launcher_probes(const Roots& roots);  // hvagent, ssh, Slurm
std::vector<Probe> device_probes();                      // CUDA driver and runtime, NCCL
std::vector<Probe> fabric_probes();                      // libibverbs, librdmacm
std::vector<Probe> framework_probes();  // PyTorch, TensorFlow, JAX of the python3 in PATH

std::vector<Check> data_path_checks();                // shared memory, TCP
std::vector<Check> simd_checks(const Roots& roots);   // compiled in, and present on this CPU
std::vector<Check> limit_checks(const Roots& roots);  // rlimits, cgroup, Yama, huge pages …

}  // namespace hv::launcher::diagnose
