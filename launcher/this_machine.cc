// The part of hosts.h that looks at this machine: its names, its GPUs, its cores, files.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "launcher/hosts.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

using base::Code;
using base::fail;
using base::Result;
namespace fs = std::filesystem;

Result<std::vector<HostSpec>> read_hostfile(const std::string& path) {
  std::error_code ignored;
  std::string shown = fs::absolute(path, ignored).string();
  auto wrong = [&](const std::string& why) {
    return fail(Code::kUsage, "hostfile " + shown + ": " + why +
                                  "\n  Nothing was started. A hostfile has one host a line, for "
                                  "example: h1 slots=4");
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return wrong(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return wrong("is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) return wrong(std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return wrong("could not be read");
  return parse_hostfile(text.str(), path);
}

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      auto* address = reinterpret_cast<sockaddr_in*>(entry->ifa_addr);
      addresses.emplace_back(::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      auto* address = reinterpret_cast<sockaddr_in6*>(entry->ifa_addr);
      addresses.emplace_back(::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text));
      if (address->sin6_scope_id != 0) {
        addresses.push_back(addresses.back() + "%" + entry->ifa_name);
      }
    }
  }
  ::freeifaddrs(list);
  return addresses;
}

// The words of each line of /etc/hosts: an address and its names.
std::vector<std::vector<std::string>> read_etc_hosts() {
  std::vector<std::vector<std::string>> lines;
  std::ifstream file("/etc/hosts");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return lines;
}

}  // namespace

ThisMachine this_machine() {
  ThisMachine machine;
  if (const passwd* entry = ::getpwuid(::geteuid())) machine.user = entry->pw_name;
  machine.names = interface_addresses();
  // Debian puts a host's own names on 127.0.1.1.
  for (const char* own : {"localhost", "127.0.0.1", "::1", "127.0.1.1"}) {
    machine.names.emplace_back(own);
  }
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0')
    machine.names.emplace_back(name);
  for (const auto& line : read_etc_hosts()) {
    if (line.empty()) continue;
    auto& to = contains(machine.names, line[0]) ? machine.names : machine.others;
    to.insert(to.end(), line.begin(), line.end());
  }
  return machine;
}

bool is_local(const HostSpec& host, const ThisMachine& machine) {
  if (host.ssh_port != 0) return false;
  if (!host.user.empty() && host.user != machine.user) return false;
  return contains(machine.names, host.name);
}

bool is_known_host(std::string_view word, const ThisMachine& machine) {
  return contains(machine.names, word) || contains(machine.others, word);
}

namespace {

int count_gpus() {
  if (auto visible = base::env("CUDA_VISIBLE_DEVICES")) {
    auto list = base::trim(*visible);
    if (list.empty() || list == "-1" || list == "NoDevFiles") return 0;
    return static_cast<int>(std::ranges::count(list, ',')) + 1;
  }
  std::error_code none;
  int gpus = 0;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    gpus += entry.is_directory(none) ? 1 : 0;
  }
  if (gpus > 0) return gpus;
  while (fs::exists("/dev/nvidia" + std::to_string(gpus), none)) ++gpus;
  return gpus;
}

int count_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(CPU_COUNT(&mask), 1);
  return std::max(static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), 1);
}

}  // namespace

HostSpec default_host(int np) {
  HostSpec host;
  host.name = "localhost";
  host.slots = np;
  host.source = "-np";
  if (np > 0) return host;
  host.slots = count_gpus();
  host.source = "visible GPUs";
  if (host.slots == 0) {
    host.slots = count_cores();
    host.source = "cores of the affinity mask";
  }
  return host;
}

}  // namespace hv::launcher
