#include "launcher/agent/prober_link.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launcher/agent/prober.h"

namespace hv::launcher {

namespace {

// Nothing of the agent's may stay in its child: a socket kept open there would hide the agent's
// death.
[[noreturn]] void become_prober(base::UniqueFd socket, const rendezvous::Secret& secret,
                                std::uint32_t host, pid_t agent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(1);
  int fd = ::dup2(socket.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::close_range(3, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  [[maybe_unused]] int gone = socket.release();
  run_prober(base::UniqueFd(fd), secret, host);
  ::_exit(0);
}

}  // namespace

base::Result<std::unique_ptr<ProberLink>> ProberLink::start(const rendezvous::Secret& secret,
                                                            std::uint32_t host, Forward forward) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return base::fail(base::system_error("cannot make a socket pair for the prober", errno));
  }
  base::UniqueFd ours(ends[0]), theirs(ends[1]);
  pid_t agent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return base::fail(base::system_error("cannot start the prober", errno));
  if (pid == 0) become_prober(std::move(theirs), secret, host, agent);
  return std::unique_ptr<ProberLink>(new ProberLink(std::move(ours), std::move(forward)));
}

ProberLink::ProberLink(base::UniqueFd socket, Forward forward)
    : stream_(std::move(socket)), forward_(std::move(forward)) {}

void ProberLink::watch(Poller& poller) {
  if (ended_) return;
  short events = stream_.queued() > 0 ? POLLIN | POLLOUT : POLLIN;
  poller.watch(stream_.in_fd(), events, [this](short revents) { on_ready(revents); });
}

void ProberLink::deliver(rendezvous::ToProber message) {
  stream_.send({message.type, std::move(message.body)});
}

void ProberLink::on_ready(short revents) {
  bool fine = (revents & POLLOUT) == 0 || stream_.on_writable();
  if ((revents & ~POLLOUT) != 0) fine &= stream_.on_readable().has_value();
  for (;;) {
    auto frame = stream_.next();
    fine &= frame.has_value();
    if (!frame || !*frame) break;
    forward_({(*frame)->type, std::move((*frame)->body)});
  }
  if (fine) return;
  ended_ = true;
  forward_({rendezvous::MsgType::kInvalid, {}});
}

}  // namespace hv::launcher
