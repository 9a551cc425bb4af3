// The known_hosts files, read as ssh reads them. Part of ssh_session: uses libssh.
#pragma once

#include <libssh/libssh.h>

#include <memory>
#include <string>
#include <vector>

#include "launcher/ssh_config.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct SshKeyDeleter {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using SshKey = std::unique_ptr<ssh_key_struct, SshKeyDeleter>;

struct KnownKey {
  SshKey key;
  std::string place;  // "~/.ssh/known_hosts:12"
};

class KnownHosts {
 public:
  // What the files say about this target. kUnavailable where they say it in a way that only the
  // OpenSSH client understands (certificate authorities, revoked keys).
  static base::Result<KnownHosts> read(const SshTarget& target);

  // Algorithms to offer, those of known keys first, so that the server shows a key we can check.
  std::string preferred_algorithms() const;

  // Fine, or kAuth with what the user should do. A new key may be added to the user's file, where
  // the configuration says so.
  base::Result<void> check(const SshTarget& target, ssh_key shown) const;

 private:
  std::vector<KnownKey> keys_;
  std::vector<KnownKey> without_port_;
};

}  // namespace hv::launcher
