#include "launcher/ssh_session.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "launcher/dialer.h"
#include "launcher/ssh_session_host_key.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract.h"

namespace hv::launcher {
namespace {

using base::Code;

// libssh asks for a passphrase through this; nobody is asked.
int no_passphrase(const char*, char*, std::size_t, int, int, void*) { return -1; }

ino_t inode_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

class Session : public SshSession {
 public:
  Session(const SshTarget& target, int stop) : target_(target), stop_(stop), session_(ssh_new()) {}
  ~Session() override {
    if (channel_ != nullptr) ssh_channel_free(channel_);
    ssh_disconnect(session_);
    ssh_free(session_);
    close_socket();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  base::Result<void> connect(base::Deadline deadline);
  base::Result<void> authenticate(base::Deadline deadline);
  base::Result<void> start(const std::string& command, base::Deadline deadline) override;
  base::Result<int> pump(const Streams& streams) override;

 private:
  // Repeats a call of libssh until it is through; the deadline's or stop's error otherwise.
  template <class Call>
  base::Result<int> settle(base::Deadline deadline, std::string_view stage, Call call) {
    while (true) {
      int result = call();
      if (result != SSH_AGAIN && result != SSH_AUTH_AGAIN) return result;
      pollfd fds[] = {{socket_, wanted(), 0}, {stop_, POLLIN, 0}};
      int ready = ::poll(fds, 2, deadline.poll_ms());
      if (fds[1].revents != 0) return base::fail(Code::kAborted, "stopped by hvrun");
      if (ready == 0) {
        return base::fail(Code::kTimeout, "timeout: connected to port " +
                                              std::to_string(target_.port) + ", but " +
                                              std::string(stage) + " did not end in time");
      }
    }
  }
  short wanted() const {
    return (ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) != 0 ? POLLIN | POLLOUT : POLLIN;
  }
  void close_socket() const;
  bool set(ssh_options_e option, const std::string& value) {
    return ssh_options_set(session_, option, value.c_str()) == SSH_OK;
  }
  base::Result<void> set_options(const KnownHosts& known);
  base::Result<void> read_greeting(base::Deadline deadline);
  base::Error handshake_error() const;
  base::Result<bool> try_file(const std::string& path, base::Deadline deadline);
  base::Result<bool> try_agent(base::Deadline deadline);
  base::Error refused() const;

  bool send_some(const Streams& streams, std::size_t& sent);
  bool read_some(const Streams& streams);
  // Sending handles packets too. What they bring is passed on at once: left in libssh's buffer it
  // would wait for the next packet, and with the peer's window used up there is none.
  static int on_data(ssh_session, ssh_channel, void* data, std::uint32_t size, int is_stderr,
                     void* self) {
    const auto* streams = static_cast<Session*>(self)->streams_;
    if (streams == nullptr) return 0;
    (is_stderr == 0 ? streams->on_output
                    : streams->on_diagnostics)({static_cast<const std::byte*>(data), size});
    return static_cast<int>(size);
  }
  static void on_exit_status(ssh_session, ssh_channel, int status, void* self) {
    static_cast<Session*>(self)->exit_code_ = status;
  }
  static void on_exit_signal(ssh_session, ssh_channel, const char* signal, int, const char*,
                             const char*, void* self) {
    static_cast<Session*>(self)->exit_signal_ = signal;
  }

  const SshTarget target_;
  int stop_;
  ssh_session session_;
  int socket_ = -1;
  ino_t socket_inode_ = 0;
  ssh_channel channel_ = nullptr;
  ssh_channel_callbacks_struct callbacks_{};
  std::string greeting_;
  std::vector<std::string> tried_;
  std::optional<int> exit_code_;
  std::string exit_signal_;
  const Streams* streams_ = nullptr;  // while pumping
};

// libssh closes a socket that it was given in some cases and in others not; by now the number may
// be another thread's. A socket's inode is never used again.
void Session::close_socket() const {
  if (socket_ >= 0 && inode_of(socket_) == socket_inode_) ::close(socket_);
}

base::Result<void> Session::set_options(const KnownHosts& known) {
  int no = 0;
  ssh_options_set(session_, SSH_OPTIONS_PROCESS_CONFIG, &no);
  ssh_options_set(session_, SSH_OPTIONS_PORT, &target_.port);
  set(SSH_OPTIONS_HOST, target_.host_name);
  set(SSH_OPTIONS_USER, target_.user);
  // The files are read by KnownHosts.
  set(SSH_OPTIONS_KNOWNHOSTS, "/dev/null");
  set(SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
  set(SSH_OPTIONS_HOSTKEYS, known.preferred_algorithms());
  if (!target_.agent_socket.empty()) set(SSH_OPTIONS_IDENTITY_AGENT, target_.agent_socket);
  for (const auto& [list, names] : target_.algorithms) {
    bool fine = list == "ciphers"
                    ? set(SSH_OPTIONS_CIPHERS_C_S, names) && set(SSH_OPTIONS_CIPHERS_S_C, names)
                : list == "macs"
                    ? set(SSH_OPTIONS_HMAC_C_S, names) && set(SSH_OPTIONS_HMAC_S_C, names)
                : list == "kexalgorithms"     ? set(SSH_OPTIONS_KEY_EXCHANGE, names)
                : list == "hostkeyalgorithms" ? set(SSH_OPTIONS_HOSTKEYS, names)
                                              : set(SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, names);
    if (!fine) {
      return base::fail(base::Error{
          Code::kUnavailable, "libssh knows none of " + list + " " + names, {}, EPROTONOSUPPORT});
    }
  }
  return {};
}

base::Result<void> Session::connect(base::Deadline deadline) {
  auto known = KnownHosts::read(target_);
  if (!known) return base::fail(known.error());
  if (auto set = set_options(*known); !set) return set;
  auto socket = dial_tcp({target_.host_name, target_.port, target_.family, target_.bind_address},
                         deadline, stop_);
  if (!socket) return base::fail(socket.error());
  socket_ = socket->release();
  socket_inode_ = inode_of(socket_);
  ssh_options_set(session_, SSH_OPTIONS_FD, &socket_);
  ssh_set_blocking(session_, 0);
  if (auto read = read_greeting(deadline); !read) return read;
  auto connected = settle(deadline, "the ssh handshake", [&] { return ssh_connect(session_); });
  if (!connected) return base::fail(connected.error());
  if (*connected != SSH_OK) return base::fail(handshake_error());

  ssh_key shown = nullptr;
  if (ssh_get_server_publickey(session_, &shown) != SSH_OK) return base::fail(handshake_error());
  SshKey owned(shown);
  return known->check(target_, shown);
}

// The server speaks first. Its words stay in the socket for libssh, which would not tell us.
base::Result<void> Session::read_greeting(base::Deadline deadline) {
  char words[256];
  auto size = settle(deadline, "the ssh handshake", [&] {
    auto got = ::recv(socket_, words, sizeof words, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return SSH_AGAIN;
    return static_cast<int>(std::max<ssize_t>(got, 0));
  });
  if (!size) return base::fail(size.error());
  greeting_.assign(words, static_cast<std::size_t>(*size));
  if (greeting_.empty()) return base::fail(handshake_error());
  return {};
}

base::Error Session::handshake_error() const {
  std::string said = ssh_get_error(session_);
  auto port = std::to_string(target_.port);
  if (said.find("no match") != said.npos || said.find("unsupported") != said.npos) {
    return {Code::kUnavailable, "handshake: " + said, {}, EPROTONOSUPPORT};
  }
  auto greets = [&](std::string_view words) { return greeting_.find(words) != greeting_.npos; };
  // A server that sheds load just closes, or says one of these first.
  if (greeting_.empty() || greets("SSH-") || greets("MaxStartups") || greets("Not allowed")) {
    return {Code::kUnavailable,
            "reset: port " + port +
                " closed the connection during the ssh handshake (MaxStartups of its sshd?)",
            {},
            ECONNRESET};
  }
  auto line = greeting_.substr(0, greeting_.find_first_of("\r\n"));
  return {Code::kUnavailable,
          "handshake: on port " + port + " there is no ssh server; it says: " + line,
          {},
          0};
}

base::Result<void> Session::authenticate(base::Deadline deadline) {
  auto none =
      settle(deadline, "authentication", [&] { return ssh_userauth_none(session_, nullptr); });
  if (!none) return base::fail(none.error());
  if (*none == SSH_AUTH_SUCCESS) return {};
  if (*none == SSH_AUTH_ERROR) return base::fail(handshake_error());

  // Keys that the user named come first: many keys in an agent use up the server's patience.
  auto try_files = [&](const std::vector<std::string>& paths) -> base::Result<bool> {
    for (const auto& path : paths) {
      auto in = try_file(path, deadline);
      if (!in || *in) return in;
    }
    return false;
  };
  auto in = try_files(target_.identity_files);
  if (in && !*in && !target_.agent_socket.empty() && !target_.identities_only) {
    in = try_agent(deadline);
  }
  if (in && !*in && target_.identity_files.empty()) in = try_files(target_.default_identity_files);
  if (!in) return base::fail(in.error());
  if (*in) return {};
  auto error = refused();
  // libssh cannot pick one key of an agent.
  if (target_.identities_only && !target_.agent_socket.empty()) error.sys = EPROTONOSUPPORT;
  return base::fail(std::move(error));
}

base::Result<bool> Session::try_file(const std::string& path, base::Deadline deadline) {
  ssh_key raw = nullptr;
  if (::access(path.c_str(), F_OK) != 0) return false;
  if (ssh_pki_import_privkey_file(path.c_str(), nullptr, no_passphrase, nullptr, &raw) != SSH_OK) {
    tried_.push_back(path + " (not readable without a passphrase)");
    return false;
  }
  SshKey key(raw);
  tried_.push_back(path);
  auto answer = settle(deadline, "authentication",
                       [&] { return ssh_userauth_publickey(session_, nullptr, key.get()); });
  if (!answer) return base::fail(answer.error());
  return *answer == SSH_AUTH_SUCCESS;
}

base::Result<bool> Session::try_agent(base::Deadline deadline) {
  tried_.emplace_back("the keys of the ssh agent");
  auto answer =
      settle(deadline, "authentication", [&] { return ssh_userauth_agent(session_, nullptr); });
  if (!answer) return base::fail(answer.error());
  return *answer == SSH_AUTH_SUCCESS;
}

base::Error Session::refused() const {
  int methods = ssh_userauth_list(session_, nullptr);
  std::vector<std::string> names;
  if (methods & SSH_AUTH_METHOD_PUBLICKEY) names.emplace_back("publickey");
  if (methods & SSH_AUTH_METHOD_PASSWORD) names.emplace_back("password");
  if (methods & SSH_AUTH_METHOD_INTERACTIVE) names.emplace_back("keyboard-interactive");
  if (methods & SSH_AUTH_METHOD_GSSAPI_MIC) names.emplace_back("gssapi-with-mic");
  if (methods & SSH_AUTH_METHOD_HOSTBASED) names.emplace_back("hostbased");
  return {Code::kAuth,
          "authentication: user " + target_.user + " was not let in (tried: " +
              (tried_.empty() ? "no key, there is none" : base::join(tried_, ", ")) +
              "; the host takes: " + base::join(names, ", ") +
              "); hvrun never asks for passwords: put a public key into its authorized_keys",
          {},
          0};
}

base::Result<void> Session::start(const std::string& command, base::Deadline deadline) {
  channel_ = ssh_channel_new(session_);
  callbacks_.userdata = this;
  callbacks_.channel_data_function = on_data;
  callbacks_.channel_exit_status_function = on_exit_status;
  callbacks_.channel_exit_signal_function = on_exit_signal;
  ssh_callbacks_init(&callbacks_);
  ssh_set_channel_callbacks(channel_, &callbacks_);
  for (bool exec : {false, true}) {
    auto done = settle(deadline, "starting the remote shell", [&] {
      return exec ? ssh_channel_request_exec(channel_, command.c_str())
                  : ssh_channel_open_session(channel_);
    });
    if (!done) return base::fail(done.error());
    if (*done != SSH_OK) {
      return base::fail(Code::kUnavailable, std::string("channel: the host runs no command: ") +
                                                ssh_get_error(session_));
    }
  }
  return {};
}

// False: the connection is gone.
bool Session::send_some(const Streams& streams, std::size_t& sent) {
  while ((ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) == 0) {
    auto piece = streams.next_out(std::exchange(sent, 0));
    auto size = std::min<std::size_t>(piece.size(), ssh_channel_window_size(channel_));
    if (size == 0) break;
    int written = ssh_channel_write(channel_, piece.data(), static_cast<std::uint32_t>(size));
    if (written < 0) return false;
    if (written == 0) break;
    sent = static_cast<std::size_t>(written);
  }
  return true;
}

bool Session::read_some(const Streams& streams) {
  std::array<std::byte, 32 * 1024> buffer;
  for (int is_stderr : {0, 1}) {
    while (true) {
      int size = ssh_channel_read_nonblocking(channel_, buffer.data(), buffer.size(), is_stderr);
      if (size == SSH_ERROR) return false;
      if (size <= 0) break;
      auto bytes = base::ByteSpan(buffer).first(static_cast<std::size_t>(size));
      (is_stderr == 0 ? streams.on_output : streams.on_diagnostics)(bytes);
    }
  }
  // Reading handles no more packets after the end of the output; the exit code comes then.
  if (ssh_channel_is_eof(channel_)) ssh_channel_get_exit_status(channel_);
  return ssh_is_connected(session_) != 0;
}

base::Result<int> Session::pump(const Streams& streams) {
  std::size_t sent = 0;
  streams_ = &streams;
  while (true) {
    bool alive = read_some(streams) && send_some(streams, sent);
    if (exit_code_ && ssh_channel_is_eof(channel_)) return *exit_code_;
    if (!exit_signal_.empty()) {
      return base::fail(Code::kPeerLost, "the remote command was ended by SIG" + exit_signal_);
    }
    if (ssh_channel_is_closed(channel_) && alive) return exit_code_.value_or(255);
    if (!alive) {
      return base::fail(Code::kPeerLost, "the ssh connection was lost");
    }
    pollfd fds[] = {
        {ssh_get_fd(session_), wanted(), 0}, {streams.wake, POLLIN, 0}, {stop_, POLLIN, 0}};
    ::poll(fds, 3, -1);
    if (fds[2].revents != 0) return base::fail(Code::kAborted, "stopped by hvrun");
    if (fds[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] auto size = ::read(streams.wake, &count, sizeof count);
    }
  }
}

base::Result<std::unique_ptr<SshSession>> open_session(const SshTarget& target,
                                                       base::Deadline deadline, int stop) {
  auto session = std::make_unique<Session>(target, stop);
  if (auto done = session->connect(deadline); !done) return base::fail(done.error());
  if (auto done = session->authenticate(deadline); !done) return base::fail(done.error());
  return session;
}

}  // namespace
}  // namespace hv::launcher

extern "C" {
extern const hv::launcher::SshModule hv_ssh_module [[gnu::visibility("default")]];
const hv::launcher::SshModule hv_ssh_module = {hv::rendezvous::build_id,
                                               hv::launcher::open_session};
}
