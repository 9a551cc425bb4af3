#include "launcher/diagnose/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "rendezvous/base/env.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using base::UniqueFd;

namespace {

constexpr std::size_t kMaxKept = 256 * 1024;
constexpr int kNotFound = 127;  // exit code of a child that could not execute its program

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  int fds[2] = {-1, -1};
  if (::pipe2(fds, O_CLOEXEC) != 0) return {};
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

struct Child {
  pid_t pid = -1;
  UniqueFd out, errors;
  Reply reply;
};

[[noreturn]] void run_in_child(const Question& question, int out, int errors, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotFound);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (int signal : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGHUP}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(question.in_process ? errors : out, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  if (question.in_process) {
    question.in_process(Say(out));
    ::_exit(0);
  }
  std::vector<char*> argv;
  for (const auto& word : question.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::string why = std::strerror(errno);
  [[maybe_unused]] auto written = ::write(errors, why.data(), why.size());
  ::_exit(kNotFound);
}

Child start(const Question& question) {
  Child child;
  Pipe out = make_pipe(), errors = make_pipe();
  pid_t parent = ::getpid();
  child.pid = out.read && errors.read ? ::fork() : -1;
  if (child.pid == 0) run_in_child(question, out.write.get(), errors.write.get(), parent);
  if (child.pid < 0) child.reply.code = errno;
  if (child.pid > 0) ::setpgid(child.pid, child.pid);
  child.out = std::move(out.read);
  child.errors = std::move(errors.read);
  return child;
}

// Reads what is there; more than kMaxKept is thrown away, so that no writer ever waits for us.
void drain(UniqueFd& fd, std::string& kept) {
  std::array<char, 16 * 1024> buffer;
  while (fd) {
    auto n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n > 0) {
      auto room = kMaxKept - kept.size();
      kept.append(buffer.data(), std::min(static_cast<std::size_t>(n), room));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      if (n == 0 || errno != EAGAIN) fd.reset();
      return;
    }
    if (static_cast<std::size_t>(n) < buffer.size()) return;
  }
}

void drain(Child& child) {
  drain(child.out, child.reply.out);
  drain(child.errors, child.reply.errors);
}

// True once the child has ended.
bool reap(Child& child) {
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(child.pid, &status, WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  bool signalled = got > 0 && WIFSIGNALED(status);
  child.reply.ending = signalled ? Reply::Ending::kSignalled : Reply::Ending::kExited;
  child.reply.code = got < 0 ? kNotFound : signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  ::kill(-child.pid, SIGKILL);  // what it has started and left behind
  child.pid = -1;
  drain(child);
  return true;
}

// Kills a child that is too late. One that hangs inside the kernel (a sick driver) is left behind:
// init takes it over when we end.
void give_up(Child& child) {
  ::kill(-child.pid, SIGKILL);
  ::kill(child.pid, SIGKILL);
  auto patience = base::Deadline::after(base::Millis(200));
  while (!reap(child) && !patience.passed()) ::poll(nullptr, 0, 1);
  child.pid = -1;
  child.reply.ending = Reply::Ending::kTimedOut;
}

void wait_for_news(const std::vector<Child>& children, int limit_ms) {
  std::vector<pollfd> fds;
  for (const auto& child : children) {
    if (child.pid < 0) continue;
    for (const auto* fd : {&child.out, &child.errors}) {
      if (*fd) fds.push_back({fd->get(), POLLIN, 0});
    }
  }
  // An exit is no event here: looked for every few milliseconds.
  constexpr int kTick = 5;
  ::poll(fds.data(), fds.size(), std::min(limit_ms, kTick));
}

}  // namespace

void Say::operator()(std::string_view key, std::string_view value) const {
  std::string line(key);
  line += '=';
  line += value;
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  [[maybe_unused]] auto written = ::write(fd_, line.data(), line.size());
}

std::vector<std::string> Reply::all_said(std::string_view key) const {
  std::vector<std::string> values;
  for (auto line : base::split(out, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == '=') {
      values.emplace_back(line.substr(key.size() + 1));
    }
  }
  return values;
}

std::string Reply::said(std::string_view key) const {
  auto values = all_said(key);
  return values.empty() ? std::string() : values.back();
}

std::string how_it_ended(const Reply& reply, base::Millis limit) {
  switch (reply.ending) {
    case Reply::Ending::kExited:
      return "ended with exit code " + std::to_string(reply.code);
    case Reply::Ending::kSignalled:
      return "ended with signal " + std::to_string(reply.code) + " (" + ::strsignal(reply.code) +
             ")";
    case Reply::Ending::kTimedOut: {
      std::array<char, 48> text{};
      std::snprintf(text.data(), text.size(), "did not end within %.1f s",
                    static_cast<double>(limit.count()) / 1000);
      return text.data();
    }
    case Reply::Ending::kNotStarted:
      return std::string("could not be started: ") + std::strerror(reply.code);
  }
  return {};
}

std::string last_line(std::string_view text) {
  constexpr std::size_t kMaxLine = 200;
  auto lines = base::split(text, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    auto trimmed = base::trim(*line);
    bool letters = std::ranges::any_of(
        trimmed, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
    if (letters) return std::string(trimmed.substr(0, kMaxLine));
  }
  return {};
}

std::vector<Reply> ask(const std::vector<Question>& questions, base::Millis limit) {
  std::fflush(nullptr);  // else a child that calls exit() would print our text again
  auto deadline = base::Deadline::after(limit);
  std::vector<Child> children;
  for (const auto& question : questions) children.push_back(start(question));
  auto runs = [](const Child& child) { return child.pid > 0; };
  while (std::ranges::any_of(children, runs) && !deadline.passed()) {
    wait_for_news(children, deadline.poll_ms());
    for (auto& child : children) {
      if (!runs(child)) continue;
      drain(child);
      reap(child);
    }
  }
  std::vector<Reply> replies;
  for (auto& child : children) {
    if (runs(child)) {
      give_up(child);
    }
    replies.push_back(std::move(child.reply));
  }
  return replies;
}

std::string find_program(std::string_view name) {
  auto path = base::env("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (auto folder : base::split(path, ':')) {
    auto full = (folder.empty() ? "." : std::string(folder)) + "/" + std::string(name);
    struct stat info {};
    if (::stat(full.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(full.c_str(), X_OK) == 0) {
      return full;
    }
  }
  return {};
}

}  // namespace hv::launcher::diagnose
