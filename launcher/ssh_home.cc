#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>

#include "launcher/ssh_config.h"
#include "rendezvous/base/env.h"

namespace hv::launcher {

namespace {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::vector<std::string> find_files(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

}  // namespace

// The home directory is the account's, as for ssh, whatever HOME says.
SshHome this_ssh_home() {
  SshHome home;
  home.uid = ::getuid();
  if (const auto* account = ::getpwuid(home.uid)) {
    home.user = account->pw_name;
    home.directory = account->pw_dir;
  } else {
    home.user = base::env("USER").value_or("");
    home.directory = base::env("HOME").value_or("/");
  }
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) home.host_name = name.data();
  home.read = read_text;
  home.glob = find_files;
  home.getenv = base::env;
  return home;
}

}  // namespace hv::launcher
