// An sshd of the test's own on loopback, and a home directory with a key that it accepts. Runs as
// whoever runs the test.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/ssh_config.h"

namespace hv::test {

// A directory that goes with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text, int mode = 0644) const;

 private:
  std::string path_;
};

std::string run_tool(const std::string& command);  // its output; a failure ends the test
void append(const std::string& path, const std::string& text);

class Sshd {
 public:
  static std::string why_not();  // empty: an sshd can run here
  explicit Sshd(const std::vector<std::string>& settings = {}, bool one_connection = false);
  ~Sshd();
  Sshd(const Sshd&) = delete;
  Sshd& operator=(const Sshd&) = delete;

  int port() const { return port_; }
  std::string log() const;
  std::string ssh_dir() const { return dir_.path() + "/home/.ssh"; }
  std::string config() const { return ssh_dir() + "/config"; }
  std::string known_hosts() const { return ssh_dir() + "/known_hosts"; }
  std::string host_key() const;  // "ssh-ed25519 AAAA…"
  // Knows 127.0.0.*, localhost and the aliases of its config; the port is in the config.
  launcher::SshHome home() const;

 private:
  TempDir dir_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace hv::test
