#include "launcher/agent/host_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "rendezvous/base/env.h"

namespace hv::launcher {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string host_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  for (const char* space : {"net", "ipc", "pid"}) {
    char target[64] = {};
    auto path = std::string("/proc/self/ns/") + space;
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0)
      identity += std::string(" ") + target;
  }
  return identity;
}

int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(CPU_COUNT(&mask), 1);
  return std::max(static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), 1);
}

std::vector<rendezvous::KeyValue> device_masks() {
  std::vector<rendezvous::KeyValue> masks;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                           "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"}) {
    if (auto value = base::env(name)) masks.push_back({name, *value});
  }
  return masks;
}

}  // namespace hv::launcher
