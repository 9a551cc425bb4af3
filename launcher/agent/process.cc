#include "launcher/agent/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hv::launcher {

using base::fail;
using base::Result;
using base::UniqueFd;

namespace {

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(base::system_error("cannot make a pipe for a rank's output", errno));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

enum class Step : int { kDirectory = 1, kInput, kExec };

struct Failure {  // what the child writes into the pipe that a successful exec closes
  Step step;
  int sys;
};

// Everything the child needs, made before vfork: until exec it runs in our memory.
struct Child {
  const char* path;
  char* const* argv;
  char* const* envp;
  const char* working_directory;
  int out, err, failure;
  pid_t parent;
  rlim_t stack;  // soft limit to set, 0: leave it
};

[[noreturn]] void give_up(const Child& child, Step step) {
  Failure failure{step, errno};
  [[maybe_unused]] auto ignored = ::write(child.failure, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void become_rank(const Child& child) {
  ::setpgid(0, 0);
  // Dies with the agent even if agent and keeper are killed at once.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(127);
  // A program expects the defaults; only an ignored HUP (nohup) is passed on.
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGCHLD}) {
    ::sigaction(signal, &plain, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (child.stack != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = child.stack;
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  if (::chdir(child.working_directory) != 0) give_up(child, Step::kDirectory);
  int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0) give_up(child, Step::kInput);
  if (null > 2) ::close(null);
  ::dup2(child.out, 1);
  ::dup2(child.err, 2);
  ::execve(child.path, child.argv, child.envp);
  give_up(child, Step::kExec);
}

// A function of its own: nothing in it lives across vfork but its argument.
__attribute__((noinline)) pid_t fork_rank(const Child& child) {
  pid_t pid = ::vfork();
  if (pid == 0) become_rank(child);
  return pid;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const auto& text : strings) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

std::size_t bytes_of(const std::vector<std::string>& strings) {
  std::size_t sum = 0;
  for (const auto& text : strings) sum += text.size() + 1 + sizeof(char*);
  return sum;
}

// The kernel lets argv and environment take a quarter of the stack limit; a large environment
// needs a larger one.
rlim_t needed_stack(const ProcessSpec& spec) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  rlim_t need = 4 * (bytes_of(spec.argv) + bytes_of(spec.environment) + 64 * 1024);
  if (need <= limit.rlim_cur) return 0;
  return limit.rlim_max == RLIM_INFINITY ? need : std::min(need, limit.rlim_max);
}

base::Error explain(const Failure& failure, const ProcessSpec& spec) {
  switch (failure.step) {
    case Step::kDirectory:
      return base::system_error("cannot enter the working directory " + spec.working_directory,
                                failure.sys);
    case Step::kInput:
      return base::system_error("cannot open /dev/null", failure.sys);
    case Step::kExec:
      break;
  }
  if (failure.sys == E2BIG) {
    return {base::Code::kSystem,
            "cannot start " + spec.path + ": arguments (" +
                std::to_string(bytes_of(spec.argv) / 1024) + " KiB) and environment (" +
                std::to_string(bytes_of(spec.environment) / 1024) +
                " KiB) are more than the kernel passes to a program; leave variables out, or raise "
                "the hard stack limit (ulimit -H -s)",
            {},
            failure.sys};
  }
  return base::system_error("cannot start " + spec.path, failure.sys);
}

}  // namespace

Result<StartedProcess> start_process(const ProcessSpec& spec) {
  auto out = make_pipe();
  auto err = make_pipe();
  auto failure = make_pipe();
  for (auto* pipe : {&out, &err, &failure}) {
    if (!*pipe) return tl::unexpected(pipe->error());
  }
  auto argv = pointers(spec.argv);
  auto envp = pointers(spec.environment);
  Child child{
      spec.path.c_str(), argv.data(),      envp.data(),          spec.working_directory.c_str(),
      out->write.get(),  err->write.get(), failure->write.get(), ::getpid(),
      needed_stack(spec)};
  pid_t pid = fork_rank(child);
  if (pid < 0) return fail(base::system_error("cannot make a process for " + spec.path, errno));
  failure->write.reset();
  Failure what{};
  ssize_t got;
  do {
    got = ::read(failure->read.get(), &what, sizeof what);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof what) {
    ::waitpid(pid, nullptr, 0);
    return fail(explain(what, spec));
  }
  for (auto* end : {&out->read, &err->read}) {
    ::fcntl(end->get(), F_SETFL, O_RDONLY | O_NONBLOCK);
  }
  return StartedProcess{pid, std::move(out->read), std::move(err->read)};
}

}  // namespace hv::launcher
