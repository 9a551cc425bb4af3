// What ssh would do for a host: hvrun's flags first, then ~/.ssh/config, then /etc/ssh/ssh_config,
// the first value of each keyword wins. Pure: files come through SshHome.
//
// Understood are Host, Match (all, host, originalhost, user, localuser, final), Include and the
// keywords that SshTarget has fields for. Keywords that do not matter for starting one program are
// skipped. Whatever else is set for a host (a jump host, certificates, a keyword unknown to us) is
// left to the OpenSSH client itself: client_needed says why.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct SshFlags {  // of hvrun, for all hosts
  std::string identity_file;
  int port = 0;
  std::vector<std::string> options;  // "Keyword=value"
};

// The user, and where files come from; a test gives its own.
struct SshHome {
  std::string user;
  std::string directory;
  std::string host_name;
  unsigned uid = 0;
  std::string system_config = "/etc/ssh/ssh_config";
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::function<std::vector<std::string>(const std::string& pattern)> glob;
  std::function<std::optional<std::string>(const char* name)> getenv;
};
SshHome this_ssh_home();

enum class HostKeyPolicy { kStrict, kAcceptNew, kOff };
enum class AddressFamily { kAny, kInet, kInet6 };

struct SshTarget {
  std::string name;       // as the user named the host
  std::string host_name;  // where to connect, and the name in known_hosts
  std::string user;
  int port = 22;
  std::vector<std::string> identity_files;  // given ones; empty: the default files
  std::vector<std::string> default_identity_files;
  bool identities_only = false;
  std::string agent_socket;  // empty: none
  std::vector<std::string> user_known_hosts, global_known_hosts;
  HostKeyPolicy host_keys = HostKeyPolicy::kStrict;
  std::optional<std::chrono::milliseconds> connect_timeout;
  AddressFamily family = AddressFamily::kAny;
  std::string bind_address;
  // Lists of algorithms, by keyword in lower case: "ciphers", "macs", "kexalgorithms",
  // "hostkeyalgorithms", "pubkeyacceptedalgorithms".
  std::vector<std::pair<std::string, std::string>> algorithms;

  std::string client_needed;  // why only the OpenSSH client can do this; empty: we can

  // The same for the OpenSSH client: {"ssh", "-p", "2201", "me@h1"}.
  std::vector<std::string> client_arguments;
  std::string by_hand() const;  // "ssh -p 2201 me@h1 true", to try
};

// kUsage for flags that make no sense.
base::Result<SshTarget> make_ssh_target(const HostSpec& host, const SshFlags& flags,
                                        const SshHome& home);

}  // namespace hv::launcher
