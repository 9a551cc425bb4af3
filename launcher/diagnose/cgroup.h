// What the cgroups of this process allow, version 1, 2 or both: the tightest limit on the way from
// its own cgroup up to the root.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hv::launcher::diagnose {

struct CgroupLimits {
  std::string version;                 // "v1", "v2", "v1+v2", or "" where there is none
  std::optional<std::int64_t> memory;  // bytes
  std::string memory_file;             // that sets it
  std::optional<double> cpus;          // quota in cores
  std::string cpus_file;
};
CgroupLimits read_cgroup_limits(const std::filesystem::path& proc,
                                const std::filesystem::path& sys);

// This process is in a cgroup of Slurm's job (".../job_12/..."); false says nothing: not every site
// uses them.
bool in_slurm_cgroup(const std::filesystem::path& proc, const std::string& job);

}  // namespace hv::launcher::diagnose
