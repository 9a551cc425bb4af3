#include "support/sshd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "rendezvous/base/fd.h"

namespace hv::test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string pattern = fs::temp_directory_path() / "hvtest-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempDir::file(const std::string& name, const std::string& text, int mode) const {
  auto path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  ::chmod(path.c_str(), static_cast<mode_t>(mode));
  return path;
}

std::string run_tool(const std::string& command) {
  auto* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (auto size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), size);
  }
  if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + output);
  return output;
}

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int free_port() {
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

std::string Sshd::why_not() {
  if (::access("/usr/sbin/sshd", X_OK) != 0) return "openssh-server is not installed";
  return {};
}

Sshd::Sshd(const std::vector<std::string>& settings, bool one_connection) : port_(free_port()) {
  if (::getuid() == 0) fs::create_directories("/run/sshd");
  auto root = dir_.path();
  fs::create_directories(ssh_dir());
  run_tool("ssh-keygen -q -t ed25519 -N '' -f " + root + "/host_key");
  run_tool("ssh-keygen -q -t ed25519 -N '' -f " + ssh_dir() + "/id_ed25519");
  auto port = std::to_string(port_);
  dir_.file("home/.ssh/known_hosts",
            "[127.0.0.*]:" + port + ",[localhost]:" + port + " " + host_key() + "\n");
  dir_.file("home/.ssh/config", "Host *\n  Port " + port + "\n");

  std::string text = "Port " + port + "\nListenAddress 0.0.0.0\nHostKey " + root +
                     "/host_key\nAuthorizedKeysFile " + ssh_dir() +
                     "/id_ed25519.pub\nStrictModes no\nUsePAM no\nPidFile none\nUseDNS no\n"
                     "PasswordAuthentication no\nPermitRootLogin yes\nLogLevel VERBOSE\n";
  std::string first;  // the first value of a setting wins
  for (const auto& setting : settings) first += setting + "\n";
  auto config = dir_.file("sshd_config", first + text);
  auto log = root + "/sshd.log";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    int null = ::open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) ::dup2(null, fd);
    ::execl("/usr/sbin/sshd", "/usr/sbin/sshd", one_connection ? "-d" : "-D", "-f", config.c_str(),
            "-E", log.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && this->log().find("Server listening") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (this->log().find("Server listening") == std::string::npos) {
    throw std::runtime_error("sshd did not start: " + this->log());
  }
}

Sshd::~Sshd() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

std::string Sshd::log() const { return read_file(dir_.path() + "/sshd.log"); }

std::string Sshd::host_key() const {
  auto line = read_file(dir_.path() + "/host_key.pub");
  return line.substr(0, line.find(' ', line.find(' ') + 1));
}

launcher::SshHome Sshd::home() const {
  auto home = launcher::this_ssh_home();
  home.directory = dir_.path() + "/home";
  home.system_config = dir_.path() + "/no-system-config";
  home.getenv = [](const char*) { return std::nullopt; };
  return home;
}

}  // namespace hv::test
