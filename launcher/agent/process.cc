#include "launcher/agent/process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

enum class Step : int { kDirectory = 1, kInput, kBinding, kExec };

struct Failure {  // what the child writes into the pipe that a successful exec closes
  Step step;
  int sys;
};

// Everything the child needs, made before fork.
struct Child {
  const char* path;
  char* const* argv;
  char* const* envp;
  const char* working_directory;
  int in, out, err, failure;  // in: -1 for /dev/null
  pid_t parent;
  rlim_t stack;           // soft limit to set, 0: leave it
  const cpu_set_t* cpus;  // may be null
  int node;               // to take memory from first; -1: as it comes
  int inherited;          // -1: none
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
  if (child.cpus != nullptr && ::sched_setaffinity(0, sizeof(cpu_set_t), child.cpus) != 0) {
    give_up(child, Step::kBinding);
  }
  if (child.node >= 0) {  // a wish: where the kernel has no such policy, memory comes as it does
    unsigned long nodes = 1UL << child.node;
    ::syscall(SYS_set_mempolicy, 1 /* MPOL_PREFERRED */, &nodes, 8 * sizeof nodes);
  }
  int in = child.in >= 0 ? child.in : ::open("/dev/null", O_RDONLY);
  if (in < 0 || ::dup2(in, 0) < 0) give_up(child, Step::kInput);
  if (in > 2) ::close(in);
  ::dup2(child.out, 1);
  ::dup2(child.err, 2);
  if (child.inherited >= 0) ::fcntl(child.inherited, F_SETFD, 0);
  ::execve(child.path, child.argv, child.envp);
  give_up(child, Step::kExec);
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
    case Step::kBinding:
      return base::system_error("cannot bind to the processors chosen", failure.sys);
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

Result<StartingProcess> begin_process(const ProcessSpec& spec) {
  auto out = make_pipe();
  auto err = make_pipe();
  auto failure = make_pipe();
  auto in = spec.with_input ? make_pipe() : Pipe{};
  for (auto* pipe : {&out, &err, &failure, &in}) {
    if (!*pipe) return tl::unexpected(pipe->error());
  }
  auto argv = pointers(spec.argv);
  auto envp = pointers(spec.environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int cpu : spec.place.cpus) CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  Child child{spec.path.c_str(),
              argv.data(),
              envp.data(),
              spec.working_directory.c_str(),
              in->read.get(),
              out->write.get(),
              err->write.get(),
              failure->write.get(),
              ::getpid(),
              needed_stack(spec),
              spec.place.cpus.empty() ? nullptr : &cpus,
              spec.place.node,
              spec.inherited};
  pid_t pid = ::fork();
  if (pid < 0) return fail(base::system_error("cannot make a process for " + spec.path, errno));
  if (pid == 0) become_rank(child);
  for (auto* end : {&out->read, &err->read}) {
    ::fcntl(end->get(), F_SETFL, O_RDONLY | O_NONBLOCK);
  }
  if (spec.with_input) ::fcntl(in->write.get(), F_SETFL, O_WRONLY | O_NONBLOCK);
  return StartingProcess{{pid, std::move(out->read), std::move(err->read), std::move(in->write)},
                         std::move(failure->read)};
}

Result<StartedProcess> finish_start(StartingProcess starting, const ProcessSpec& spec) {
  Failure what{};
  ssize_t got;
  do {
    got = ::read(starting.failure.get(), &what, sizeof what);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof what) return std::move(starting.process);
  ::waitpid(starting.process.pid, nullptr, 0);
  return fail(explain(what, spec));
}

Result<StartedProcess> start_process(const ProcessSpec& spec) {
  auto starting = begin_process(spec);
  if (!starting) return fail(starting.error());
  return finish_start(std::move(*starting), spec);
}

}  // namespace hv::launcher
