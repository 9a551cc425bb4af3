// The ways gradients take that need no library: shared memory, TCP, and the SIMD that adds.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/diagnose/build_info.h"
#include "launcher/diagnose/check_build.h"
#include "launcher/diagnose/files.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using base::UniqueFd;

namespace {

constexpr const char* kGroup = "Data paths";

Check failed(const char* name, const char* step) {
  return no(kGroup, name, std::string(step) + ": " + std::strerror(errno));
}

Check shared_memory() {
  constexpr const char* kName = "shared memory";
  constexpr std::size_t kBytes = 1 << 16;
  UniqueFd fd(::memfd_create("hv-check", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed(kName, "memfd_create");
  if (::ftruncate(fd.get(), kBytes) != 0) return failed(kName, "ftruncate of a memfd");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return failed(kName, "sealing a memfd");
  }
  void* map = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return failed(kName, "mmap of a memfd");
  ::munmap(map, kBytes);
  Check check = yes(kGroup, kName);
  check.reason = "sealed memfd";
  return check;
}

// A listener on loopback, and a connection to it.
Check tcp(const char* name, int family) {
  sockaddr_storage address{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  socklen_t length = family == AF_INET ? sizeof *v4 : sizeof *v6;
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    v6->sin6_addr = in6addr_loopback;
  }
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd caller(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || !caller) return failed(name, "socket");
  if (::bind(listener.get(), raw, length) != 0) return failed(name, "bind to loopback");
  if (::listen(listener.get(), 1) != 0) return failed(name, "listen");
  if (::getsockname(listener.get(), raw, &length) != 0) return failed(name, "getsockname");
  if (::connect(caller.get(), raw, length) != 0) return failed(name, "connect over loopback");
  return yes(kGroup, name);
}

// What an instruction set of ours needs, in the words of /proc/cpuinfo.
std::vector<std::string> features_of(std::string_view set) {
  if (set == "avx2") return {"avx2", "f16c"};
  if (set == "avx512") return {"avx512f", "avx512bw", "avx512vl", "avx512dq", "f16c"};
  return {};
}

}  // namespace

std::vector<Check> simd_checks(const Roots& roots) {
  Check base = yes(kGroup, "SIMD baseline");
  base.version = kBuildInfo.processor;
  std::vector<Check> checks = {base};
  auto flags = field_of(read_text(roots.proc / "cpuinfo"), "flags");
  auto present = base::split(flags, ' ');
  for (std::string_view set : {"avx2", "avx512"}) {
    std::string name = "SIMD " + std::string(set);
    auto compiled = base::split(kBuildInfo.simd, ',');
    if (std::ranges::find(compiled, set) == compiled.end()) {
      checks.push_back(no(kGroup, name, "not in this build"));
      continue;
    }
    std::vector<std::string> missing;
    std::ranges::copy_if(features_of(set), std::back_inserter(missing), [&](const auto& feature) {
      return std::ranges::find(present, feature) == present.end();
    });
    if (missing.empty()) {
      checks.push_back(yes(kGroup, name));
    } else {
      checks.push_back(
          no(kGroup, name, "in this build, but this CPU has no " + base::join(missing, ", ")));
    }
  }
  return checks;
}

std::vector<Check> data_path_checks() {
  return {shared_memory(), tcp("TCP over IPv4", AF_INET), tcp("TCP over IPv6", AF_INET6)};
}

}  // namespace hv::launcher::diagnose
