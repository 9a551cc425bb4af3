#include "launcher/diagnose/measure_host.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "launcher/agent/host_facts.h"
#include "launcher/diagnose/cgroup.h"
#include "launcher/diagnose/child.h"
#include "launcher/diagnose/files.h"
#include "launcher/diagnose/infiniband.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

using base::Clock;

// Of each thread, twice: more than its share of the caches of common servers.
constexpr std::size_t kBuffer = std::size_t{16} << 20;
constexpr int kMaxThreads = 32;  // as many as saturate the memory of any machine we know

std::int64_t soft_limit(__rlimit_resource which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::uint64_t total_memory(const CgroupLimits& limits) {
  auto field = field_of(read_text("/proc/meminfo"), "MemTotal");
  auto bytes = base::parse_int(field.substr(0, field.find(' '))).value_or(0) * 1024;
  if (limits.memory) bytes = std::min(bytes, *limits.memory);
  return static_cast<std::uint64_t>(bytes);
}

// Bytes a second of this thread's best stretch; what is copied is read once and written once.
double copy_speed(Clock::time_point until) {
  constexpr std::size_t kStretch = std::size_t{4} << 20;
  std::vector<char> from(kBuffer, 1), to(kBuffer, 2);
  double best = 0;
  for (std::size_t at = 0; best == 0 || Clock::now() < until; at = (at + kStretch) % kBuffer) {
    auto begin = Clock::now();
    std::memcpy(to.data() + at, from.data() + at, kStretch);
    std::chrono::duration<double> took = Clock::now() - begin;
    // Somebody has to look at what was copied, or it need not be.
    asm volatile("" : : "r"(to.data()) : "memory");
    best = std::max(best, 2.0 * kStretch / std::max(took.count(), 1e-9));
  }
  return best;
}

}  // namespace

double memory_bandwidth(int threads, base::Millis time) {
  auto count = static_cast<std::size_t>(std::clamp(threads, 1, kMaxThreads));
  std::vector<double> speeds(count);
  auto until = Clock::now() + time;
  {
    std::vector<std::jthread> running;
    for (auto& speed : speeds) {
      running.emplace_back([&speed, until] { speed = copy_speed(until); });
    }
  }
  return std::accumulate(speeds.begin(), speeds.end(), 0.0) / 1e9;
}

rendezvous::HostProbed measure_host(base::Millis memory_time) {
  rendezvous::HostProbed host;
  auto limits = read_cgroup_limits("/proc", "/sys");
  int cpus = usable_cpus();
  host.cores = limits.cpus ? std::min<double>(cpus, *limits.cpus) : cpus;
  host.memory_bytes = total_memory(limits);
  if (memory_time.count() > 0) {
    host.memory_gbyte_s = memory_bandwidth(std::max(1, static_cast<int>(host.cores)), memory_time);
  }
  host.open_files = soft_limit(RLIMIT_NOFILE);
  host.locked_memory = soft_limit(RLIMIT_MEMLOCK);
  for (const auto& gpu : read_gpus("/sys")) host.gpus.push_back(gpu.address);
  host.perftest = !find_program("ib_write_bw").empty();
  return host;
}

}  // namespace hv::launcher::diagnose
