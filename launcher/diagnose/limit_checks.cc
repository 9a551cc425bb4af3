// The limits of this machine and process, read from /proc and /sys.
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>

#include "launcher/diagnose/cgroup.h"
#include "launcher/diagnose/check_build.h"
#include "launcher/diagnose/files.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

constexpr const char* kGroup = "Limits";

std::string size_text(std::int64_t bytes) {
  return base::human_bytes(static_cast<std::uint64_t>(bytes));
}

std::string one_decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

// "Max locked memory    8388608    8388608    bytes" in /proc/self/limits.
struct ResourceLimit {
  std::string soft, hard;
};
ResourceLimit read_limit(std::string_view limits, std::string_view name) {
  for (auto line : base::split(limits, '\n')) {
    if (!line.starts_with(name)) continue;
    std::vector<std::string> words;
    for (auto word : base::split(line.substr(name.size()), ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    if (words.size() >= 2) return {words[0], words[1]};
  }
  return {};
}

Check limit_check(const std::string& name, const ResourceLimit& limit, bool is_size) {
  if (limit.soft.empty()) return no(kGroup, name, "not told by /proc/self/limits");
  auto show = [&](const std::string& text) {
    auto number = base::parse_int(text);
    return number && is_size ? size_text(*number) : text;
  };
  Check check = value(kGroup, name, show(limit.soft), base::parse_int(limit.soft));
  if (limit.hard != limit.soft) check.reason = "can be raised to " + show(limit.hard);
  return check;
}

Check locked_memory(std::string_view limits, const fs::path& sys) {
  auto limit = read_limit(limits, "Max locked memory");
  Check check = limit_check("locked memory", limit, true);
  if (check.answer == Answer::kValue && limit.soft != "unlimited" &&
      !list_folder(sys / "class/infiniband").empty()) {
    check.reason =
        "InfiniBand needs unlimited: ulimit -l unlimited, or LimitMEMLOCK=infinity of the service";
  }
  return check;
}

Check cores(const Roots& roots) {
  auto list = field_of(read_text(roots.proc / "self/status"), "Cpus_allowed_list");
  std::int64_t count = 0;
  for (auto range : base::split(list, ',')) {
    auto dash = range.find('-');
    auto low = base::parse_int(range.substr(0, dash));
    auto high = dash == range.npos ? low : base::parse_int(range.substr(dash + 1));
    if (low && high) count += *high - *low + 1;
  }
  Check check = value(kGroup, "cores allowed", std::to_string(count), count);
  check.reason = "online: " + read_text(roots.sys / "devices/system/cpu/online");
  return check;
}

Check memory(const Roots& roots) {
  auto info = read_text(roots.proc / "meminfo");
  auto kib = [&](const char* key) {
    auto field = field_of(info, key);
    return base::parse_int(field.substr(0, field.find(' '))).value_or(0) * 1024;
  };
  // Rounded, so that hosts of one kind are the same to the comparison.
  Check check = value(kGroup, "memory", size_text(kib("MemTotal")), kib("MemTotal"));
  check.reason = size_text(kib("MemAvailable")) + " available";
  return check;
}

std::vector<Check> cgroup(const Roots& roots) {
  auto limits = read_cgroup_limits(roots.proc, roots.sys);
  if (limits.version.empty()) return {value(kGroup, "cgroup", "none")};
  Check memory = value(kGroup, "cgroup memory",
                       limits.memory ? size_text(*limits.memory) : "no limit", limits.memory);
  memory.path = limits.memory_file;
  Check cpus = value(kGroup, "cgroup CPU quota",
                     limits.cpus ? one_decimal(*limits.cpus) + " cores" : "no limit");
  cpus.path = limits.cpus_file;
  return {value(kGroup, "cgroup", limits.version), memory, cpus};
}

Check yama(const Roots& roots) {
  auto scope = read_int(roots.proc / "sys/kernel/yama/ptrace_scope");
  Check check = value(kGroup, "Yama ptrace_scope", scope ? std::to_string(*scope) : "off", scope);
  check.reason = "any value will do: ranks share memory through descriptors";
  return check;
}

Check shared_memory_folder(const Roots& roots) {
  struct statvfs info {};
  if (::statvfs(roots.shm.c_str(), &info) != 0) {
    return no(kGroup, roots.shm.string(), "not there; hvrun does not need it, NCCL does");
  }
  auto block = static_cast<std::int64_t>(info.f_frsize);
  auto total = static_cast<std::int64_t>(info.f_blocks) * block;
  Check check = value(kGroup, roots.shm.string(), size_text(total), total);
  check.reason = size_text(static_cast<std::int64_t>(info.f_bavail) * block) + " free";
  constexpr std::int64_t kSmall = std::int64_t{128} << 20;  // Docker gives 64 MiB
  if (total < kSmall) check.reason += "; small for NCCL: docker run --shm-size=1g";
  return check;
}

std::vector<Check> huge_pages(const Roots& roots) {
  auto info = read_text(roots.proc / "meminfo");
  auto total = base::parse_int(field_of(info, "HugePages_Total"));
  Check reserved = value(kGroup, "huge pages", total ? std::to_string(*total) : "none", total);
  if (total) reserved.reason = "of " + field_of(info, "Hugepagesize");
  auto mode = read_text(roots.sys / "kernel/mm/transparent_hugepage/enabled");
  auto open = mode.find('['), close = mode.find(']');
  bool marked = open != mode.npos && close != mode.npos && open < close;
  Check transparent = value(kGroup, "transparent huge pages",
                            marked ? mode.substr(open + 1, close - open - 1) : "off");
  return {reserved, transparent};
}

}  // namespace

std::vector<Check> limit_checks(const Roots& roots) {
  auto limits = read_text(roots.proc / "self/limits");
  std::vector<Check> checks = {
      value(kGroup, "kernel", read_text(roots.proc / "sys/kernel/osrelease")),
      cores(roots),
      memory(roots),
  };
  std::ranges::move(cgroup(roots), std::back_inserter(checks));
  checks.push_back(locked_memory(limits, roots.sys));
  checks.push_back(limit_check("open files", read_limit(limits, "Max open files"), false));
  checks.push_back(limit_check("processes", read_limit(limits, "Max processes"), false));
  checks.push_back(yama(roots));
  checks.push_back(shared_memory_folder(roots));
  std::ranges::move(huge_pages(roots), std::back_inserter(checks));
  return checks;
}

}  // namespace hv::launcher::diagnose
