#include "launcher/diagnose/cgroup.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "launcher/diagnose/files.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

struct Membership {         // one line of /proc/self/cgroup
  std::string controllers;  // "cpu,cpuacct"; empty: version 2
  std::string path;
};

std::vector<Membership> read_memberships(const fs::path& proc) {
  std::vector<Membership> all;
  auto text = read_text(proc / "self/cgroup");
  for (auto line : base::split(text, '\n')) {
    auto first = line.find(':');
    auto second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    all.push_back({std::string(line.substr(first + 1, second - first - 1)),
                   std::string(line.substr(second + 1))});
  }
  return all;
}

bool has(const Membership& membership, std::string_view controller) {
  return std::ranges::any_of(base::split(membership.controllers, ','),
                             [&](auto word) { return word == controller; });
}

// Calls `look` for the cgroup and each one above it. In a container the path may be one of the
// host's, not visible here: then only the top counts.
void walk_up(const fs::path& mount, const std::string& path,
             const std::function<void(const fs::path&)>& look) {
  std::error_code none;
  fs::path relative = fs::path(path).relative_path();
  for (; !relative.empty(); relative = relative.parent_path()) {
    if (fs::is_directory(mount / relative, none)) look(mount / relative);
  }
  look(mount);
}

void tighten_memory(CgroupLimits& limits, const fs::path& file) {
  // Version 1 says "no limit" by a number near 2^63.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  auto bytes = read_int(file);
  if (!bytes || *bytes >= kNoLimit || (limits.memory && *limits.memory <= *bytes)) return;
  limits.memory = bytes;
  limits.memory_file = file.string();
}

void tighten_cpus(CgroupLimits& limits, double quota, double period, const fs::path& file) {
  if (quota <= 0 || period <= 0) return;
  if (limits.cpus && *limits.cpus <= quota / period) return;
  limits.cpus = quota / period;
  limits.cpus_file = file.string();
}

void look_v2(CgroupLimits& limits, const fs::path& folder) {
  tighten_memory(limits, folder / "memory.max");
  auto max = read_text(folder / "cpu.max");  // "200000 100000", or "max 100000"
  auto words = base::split(max, ' ');
  if (words.size() != 2) return;
  auto quota = base::parse_int(words[0]), period = base::parse_int(words[1]);
  if (quota && period) {
    tighten_cpus(limits, static_cast<double>(*quota), static_cast<double>(*period),
                 folder / "cpu.max");
  }
}

void look_v1_cpu(CgroupLimits& limits, const fs::path& folder) {
  auto quota = read_int(folder / "cpu.cfs_quota_us");
  auto period = read_int(folder / "cpu.cfs_period_us");
  if (quota && period) {
    tighten_cpus(limits, static_cast<double>(*quota), static_cast<double>(*period),
                 folder / "cpu.cfs_quota_us");
  }
}

// Where the controllers of a version 1 hierarchy are mounted: "cpu,cpuacct", or "cpu" alone.
fs::path v1_mount(const fs::path& cgroup, const Membership& membership, const char* controller) {
  std::error_code none;
  auto together = cgroup / membership.controllers;
  return fs::is_directory(together, none) ? together : cgroup / controller;
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& proc, const fs::path& sys) {
  CgroupLimits limits;
  auto cgroup = sys / "fs/cgroup";
  std::error_code none;
  bool v1 = false, v2 = false;
  for (const auto& membership : read_memberships(proc)) {
    if (has(membership, "memory")) {
      v1 = true;
      walk_up(v1_mount(cgroup, membership, "memory"), membership.path, [&](const fs::path& folder) {
        tighten_memory(limits, folder / "memory.limit_in_bytes");
      });
    }
    if (has(membership, "cpu")) {
      v1 = true;
      walk_up(v1_mount(cgroup, membership, "cpu"), membership.path,
              [&](const fs::path& folder) { look_v1_cpu(limits, folder); });
    }
    if (membership.controllers.empty()) {
      bool hybrid = fs::is_directory(cgroup / "unified", none);
      v2 = fs::exists((hybrid ? cgroup / "unified" : cgroup) / "cgroup.controllers", none);
      walk_up(hybrid ? cgroup / "unified" : cgroup, membership.path,
              [&](const fs::path& folder) { look_v2(limits, folder); });
    }
  }
  limits.version = v1 && v2 ? "v1+v2" : v1 ? "v1" : v2 ? "v2" : "";
  return limits;
}

bool in_slurm_cgroup(const fs::path& proc, const std::string& job) {
  return std::ranges::any_of(read_memberships(proc), [&](const Membership& membership) {
    auto parts = base::split(membership.path, '/');
    return std::ranges::find(parts, "job_" + job) != parts.end();
  });
}

}  // namespace hv::launcher::diagnose
