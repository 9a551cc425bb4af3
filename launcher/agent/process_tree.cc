#include "launcher/agent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"

namespace hv::launcher {

namespace {

// The fourth field of /proc/PID/stat; the second may hold blanks and brackets, so count from its
// last bracket. 0: the process is gone.
pid_t parent_of(int proc, const char* pid) {
  std::string path = std::string(pid) + "/stat";
  base::UniqueFd file(::openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[512];
  auto size = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* bracket = std::strrchr(text, ')');
  if (bracket == nullptr || bracket + 4 > text + size) return 0;
  return std::atoi(bracket + 4);  // ") S 123"
}

}  // namespace

void become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> descendants(pid_t root) {
  std::unordered_multimap<pid_t, pid_t> children;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return {};
  while (const dirent* entry = ::readdir(proc.get())) {
    pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (pid_t parent = parent_of(::dirfd(proc.get()), entry->d_name)) children.emplace(parent, pid);
  }
  std::vector<pid_t> found;
  auto add_children = [&](pid_t parent) {
    auto [from, to] = children.equal_range(parent);
    for (; from != to; ++from) found.push_back(from->second);
  };
  add_children(root);
  for (std::size_t i = 0; i < found.size(); ++i) add_children(found[i]);
  return found;
}

void kill_descendants() {
  for (pid_t pid : descendants(::getpid())) ::kill(pid, SIGKILL);
}

void end_descendants(std::chrono::milliseconds at_most) {
  auto deadline = base::Deadline::after(at_most);
  for (;;) {
    pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
    if (reaped > 0) continue;
    if (reaped < 0 && errno == ECHILD) return;  // nothing below us: orphans would be our children
    if (deadline.passed()) return;
    kill_descendants();
    ::usleep(2000);
  }
}

}  // namespace hv::launcher
