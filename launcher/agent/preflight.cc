#include "launcher/agent/preflight.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"
#include "rendezvous/codec.h"

namespace hv::launcher {

using base::Code;
using base::fail;
using base::Result;
using base::UniqueFd;

namespace {

std::string in_directory(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

// 0 when the file can be executed, otherwise why not.
int executable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

// The interpreter of a script, empty for anything else.
std::string interpreter_of(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char head[256];
  auto size = file ? ::read(file.get(), head, sizeof head) : -1;
  if (size < 3 || head[0] != '#' || head[1] != '!') return {};
  std::string_view line(head + 2, static_cast<std::size_t>(size) - 2);
  line = base::trim(line.substr(0, line.find('\n')));
  return std::string(line.substr(0, line.find_first_of(" \t\r")));
}

base::Error program_error(int sys, std::string text) {
  return {sys == ENOENT ? Code::kNotFound : Code::kUsage, std::move(text), {}, sys};
}

Result<std::string> runnable(const std::string& path) {
  int sys = executable(path);
  if (sys == EISDIR) {
    return fail(program_error(EACCES, "program " + path + " is a directory"));
  }
  if (sys == EACCES) {
    return fail(
        program_error(EACCES, "program " + path + " is not executable; try: chmod +x " + path));
  }
  if (sys != 0) return fail(program_error(sys, base::system_error("program " + path, sys).text));
  auto interpreter = interpreter_of(path);
  if (!interpreter.empty() && executable(interpreter) != 0) {
    return fail(program_error(ENOENT, "program " + path + " needs the interpreter " + interpreter +
                                          ", which was not found"));
  }
  return path;
}

}  // namespace

Result<std::string> find_program(const std::string& program, const std::string& working_directory,
                                 const std::string& path) {
  if (program.find('/') != program.npos) {
    return runnable(program.front() == '/' ? program : in_directory(working_directory, program));
  }
  auto folders = base::split(path, ':');
  folders.push_back(working_directory);
  std::string refused;
  for (auto folder : folders) {
    std::string place(folder);
    if (!place.starts_with('/')) place = in_directory(working_directory, place);
    std::string candidate = in_directory(place, program);
    int sys = executable(candidate);
    if (sys == 0) return runnable(candidate);
    if (sys == EACCES && refused.empty()) refused = candidate;
  }
  if (!refused.empty()) return runnable(refused);
  return fail(program_error(ENOENT, "program '" + program + "' was found neither in PATH nor in " +
                                        working_directory + " (PATH=" + path + ")"));
}

Result<HeldPort> hold_port(std::uint16_t low, std::uint16_t high) {
  // Both families, so that rank 0 may bind either.
  int family = AF_INET6;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) {
    family = AF_INET;
    socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  if (!socket) return fail(base::system_error("cannot make a socket for MASTER_PORT", errno));
  int on = 1, off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  for (int port = low; port <= std::max(low, high); ++port) {
    sockaddr_in6 address{};
    address.sin6_family = static_cast<sa_family_t>(family);
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket.get(), raw, size) != 0) continue;
    ::getsockname(socket.get(), raw, &size);
    return HeldPort{std::move(socket), ntohs(address.sin6_port)};
  }
  return fail(base::system_error(
      "no free port for MASTER_PORT in " + std::to_string(low) + "-" + std::to_string(high),
      errno));
}

PreflightResult run_preflight(const rendezvous::Preflight& request) {
  PreflightResult result;
  auto note = [&](const base::Error& error) {
    result.reply.errors.push_back(rendezvous::to_wire(error));
  };
  struct stat info {};
  const auto& directory = request.working_directory;
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    note({Code::kNotFound,
          "working directory " + directory +
              " does not exist; create it there, or choose another: --wdir DIR",
          {},
          0});
    return result;
  }
  std::string path = request.path;
  if (path.empty()) path = base::env("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  if (auto program = find_program(request.program, directory, path)) {
    result.reply.program_path = *program;
  } else {
    note(program.error());
  }
  if (request.hold_master_port) {
    auto held = hold_port(request.port_low, request.port_high);
    if (held) {
      result.reply.master_port = held->port;
      result.held = std::move(*held);
    } else {
      note(held.error());
    }
  }
  return result;
}

}  // namespace hv::launcher
