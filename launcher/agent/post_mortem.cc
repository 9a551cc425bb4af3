#include "launcher/agent/post_mortem.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace hv::launcher {

namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The number behind `key` in lines of "key number"; -1: there is none.
std::int64_t number_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  for (std::int64_t number = 0; file >> name >> number;) {
    if (name == key) return number;
  }
  return -1;
}

}  // namespace

std::int64_t oom_kills(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    auto kills = number_of(root + "/sys/fs/cgroup" + line.substr(3) + "/memory.events", "oom_kill");
    if (kills >= 0) return kills;
  }
  return number_of(root + "/proc/vmstat", "oom_kill");
}

std::string core_file(const std::string& pattern, bool with_pid, pid_t pid,
                      const std::string& working_directory) {
  if (pattern.empty() || pattern.front() == '|') return {};
  std::string path;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
    } else if (++i < pattern.size() && pattern[i] == 'p') {
      path += std::to_string(pid);
      has_pid = true;
    } else {
      return {};  // a name or time that only the kernel knew
    }
  }
  if (with_pid && !has_pid) path += "." + std::to_string(pid);
  return path.front() == '/' ? path : working_directory + "/" + path;
}

std::string core_file(pid_t pid, const std::string& working_directory) {
  auto path =
      core_file(first_line("/proc/sys/kernel/core_pattern"),
                first_line("/proc/sys/kernel/core_uses_pid") == "1", pid, working_directory);
  return ::access(path.c_str(), F_OK) == 0 ? path : std::string();
}

}  // namespace hv::launcher
