#include "launcher/user_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>

namespace hv::launcher {

namespace {

bool g_terminal_int_ignored = false;  // a fact about the process, as its signal dispositions are

bool is_ignored(int signal) {
  struct sigaction current {};
  return ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

// A signal that is blocked reaches a signalfd even if it is ignored.
sigset_t user_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    ::sigaddset(&set, signal);
  }
  if (!is_ignored(SIGHUP)) ::sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_user_signals() {
  g_terminal_int_ignored = is_ignored(SIGINT);
  ::signal(SIGPIPE, SIG_IGN);
  auto set = user_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

UserSignals::UserSignals(boost::asio::io_context& io, std::function<void(int)> on_signal)
    : signals_(io), on_signal_(std::move(on_signal)) {
  auto set = user_signals();
  signals_.assign(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  wait();
}

void UserSignals::wait() {
  signals_.async_wait(signals_.wait_read, [this](boost::system::error_code error) {
    if (error) return;
    signalfd_siginfo info{};
    while (::read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
      bool from_terminal = info.ssi_code == SI_KERNEL;
      int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGINT && from_terminal && g_terminal_int_ignored) continue;
      on_signal_(signal);
    }
    wait();
  });
}

}  // namespace hv::launcher
