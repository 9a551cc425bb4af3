#include "launcher/agent/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "launcher/agent/process_tree.h"
#include "launcher/ticket.h"

namespace hv::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kToEndTree = 5s;

// The agent's exit code, once it has ended; reaps whatever else has.
std::optional<int> reap(pid_t agent) {
  std::optional<int> code;
  int status = 0;
  pid_t pid;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == agent) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return code;
}

[[noreturn]] void keep(pid_t agent, int signals, int to_agent, bool step) {
  bool stream_open = true;
  for (;;) {
    // Events 0: only the end of the spawner's stream is of interest, its bytes are the agent's.
    pollfd watched[2] = {{signals, POLLIN, 0}, {stream_open ? 0 : -1, 0, 0}};
    ::poll(watched, 2, -1);
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) continue;
      auto signal = static_cast<unsigned char>(info.ssi_signo);
      if (!step || ::write(to_agent, &signal, 1) != 1) ::kill(agent, SIGKILL);
    }
    if (auto code = reap(agent)) {
      end_descendants(kToEndTree);
      auto farewell = step ? make_farewell(*code) : std::string();
      [[maybe_unused]] auto said = ::write(STDOUT_FILENO, farewell.data(), farewell.size());
      ::_exit(*code);
    }
    if (stream_open && watched[1].revents != 0) {
      stream_open = false;
      ::kill(agent, SIGCONT);  // a stopped agent would not see that its home is gone
    }
  }
}

}  // namespace

std::vector<int> scheduler_signals() {
  std::vector<int> signals = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1,   SIGUSR2, SIGALRM,
                              SIGTERM, SIGXCPU, SIGPROF, SIGVTALRM, SIGIO,   SIGPWR};
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) signals.push_back(signal);
  return signals;
}

base::Result<base::UniqueFd> split_off_agent(bool step) {
  ::setsid();  // away from the terminal's signals; fails harmlessly where sshd has done it
  become_subreaper();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return base::fail(base::system_error("pipe", errno));
  base::UniqueFd watched(ends[0]);
  base::UniqueFd held(ends[1]);

  sigset_t handled;
  ::sigemptyset(&handled);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&handled, signal);
  for (int signal : step ? scheduler_signals() : std::vector<int>{}) ::sigaddset(&handled, signal);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  pid_t agent = ::fork();
  if (agent < 0) return base::fail(base::system_error("fork", errno));
  if (agent == 0) {
    become_subreaper();
    ::setsid();  // what is sent to the keeper's process group is not for us
    return watched;
  }
  int signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  watched.reset();
  keep(agent, signals, held.release(), step);  // `held` stays open until this process ends
}

}  // namespace hv::launcher
