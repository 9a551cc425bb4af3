// SshSession: one connection to one host, with one channel on it. The only place of libssh, which
// brings a dozen shared libraries along: it lives in a module of its own, hv_ssh.so, that is loaded
// when the first session is opened, so that a job without ssh does not wait for it.
//
// Thread: each object belongs to one worker thread, which may block in every call; becoming
// readable, the descriptor `stop` ends any of them. Owner: ssh_spawner. Failure: the text starts
// with the kind of trouble (name lookup, timeout, refused, unreachable, host key, authentication,
// reset); `worth_retrying` tells a server that sheds load.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/ssh_config.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

class SshSession {
 public:
  // Connects, checks the host key, authenticates. Never asks anybody anything. Where hv_ssh.so
  // cannot be loaded, client_may_help() says so.
  static base::Result<std::unique_ptr<SshSession>> open(const SshTarget& target,
                                                        base::Deadline deadline, int stop);
  virtual ~SshSession() = default;

  // Starts the command that the session's one channel is for.
  virtual base::Result<void> start(const std::string& command, base::Deadline deadline) = 0;

  // Moves bytes until the command has ended (its exit code), the connection is lost or `stop` says
  // so. `wake`: readable when `next_out` has more to send; it is read empty here.
  struct Streams {
    int wake = -1;
    // A piece that stays valid until the next call; empty: nothing to send now. `sent`: how many
    // bytes of the last piece have gone.
    std::function<base::ByteSpan(std::size_t sent)> next_out;
    std::function<void(base::ByteSpan)> on_output;
    std::function<void(base::ByteSpan)> on_diagnostics;
  };
  virtual base::Result<int> pump(const Streams& streams) = 0;
};

// What hv_ssh.so exports, under this name.
struct SshModule {
  std::string (*build_id)();
  base::Result<std::unique_ptr<SshSession>> (*open)(const SshTarget& target,
                                                    base::Deadline deadline, int stop);
};
inline constexpr const char* kSshModuleSymbol = "hv_ssh_module";

// The connection was closed before authentication: MaxStartups, or a server that just restarts.
bool worth_retrying(const base::Error& error);
// libssh cannot do what the configuration asks for; the OpenSSH client may.
bool client_may_help(const base::Error& error);

}  // namespace hv::launcher
