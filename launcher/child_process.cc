#include "launcher/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/base/fd.h"

extern char** environ;

namespace hv::launcher {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// For a keeper to end everything below it, before it is killed itself.
constexpr auto kToEnd = std::chrono::seconds(2);

struct Pipe {
  base::UniqueFd read, write;
};

base::Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return base::fail(base::system_error("pipe", errno));
  return Pipe{base::UniqueFd(fds[0]), base::UniqueFd(fds[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const auto& text : strings) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Its own process group, so that Ctrl-C at the terminal reaches hvrun alone; SIGPIPE as usual.
base::Result<pid_t> spawn(const std::vector<std::string>& argv,
                          const std::vector<std::string>& environment, int in, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, pipe_signal;
  sigemptyset(&none);
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  auto arguments = pointers(argv);
  auto variables = pointers(environment);
  pid_t pid = -1;
  int error = ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(),
                             environment.empty() ? environ : variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    auto failure = base::system_error("cannot start " + argv[0], error);
    if (error == ENOENT) failure.code = base::Code::kNotFound;
    return base::fail(std::move(failure));
  }
  return pid;
}

}  // namespace

ChildProcess::ChildProcess(asio::any_io_executor executor, pid_t pid, Events events)
    : executor_(executor),
      pid_(pid),
      events_(std::move(events)),
      in_(executor),
      out_(executor),
      err_(executor) {}

base::Result<std::shared_ptr<ChildProcess>> ChildProcess::start(
    asio::any_io_executor executor, const std::vector<std::string>& argv, Events events,
    const std::vector<std::string>& environment) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!*pipe) return base::fail(pipe->error());
  }
  auto pid = spawn(argv, environment, in->read.get(), out->write.get(), err->write.get());
  if (!pid) return base::fail(pid.error());

  auto child = std::shared_ptr<ChildProcess>(new ChildProcess(executor, *pid, std::move(events)));
  child->in_.assign(in->write.release());
  child->out_.assign(out->read.release());
  child->err_.assign(err->read.release());
  asio::co_spawn(executor, child->read(child->out_, child->events_.on_output), asio::detached);
  asio::co_spawn(executor, child->read(child->err_, child->events_.on_diagnostics), asio::detached);
  asio::co_spawn(executor, child->wait_for_exit(), asio::detached);
  return child;
}

asio::awaitable<void> ChildProcess::read(Stream& stream,
                                         const std::function<void(base::ByteSpan)>& sink) {
  auto self = shared_from_this();
  co_await asio::post(executor_, asio::use_awaitable);
  base::Bytes buffer(64 * 1024);
  for (error_code error; !error;) {
    auto size = co_await stream.async_read_some(asio::buffer(buffer),
                                                asio::redirect_error(asio::use_awaitable, error));
    if (size > 0) sink(base::ByteSpan(buffer).first(size));
  }
  --open_streams_;
  end_if_over();
}

void ChildProcess::write(base::Bytes bytes) {
  write_shared(std::make_shared<const base::Bytes>(std::move(bytes)));
}

void ChildProcess::write_shared(std::shared_ptr<const base::Bytes> bytes) {
  if (!in_.is_open()) return;
  queued_ += bytes->size();
  queue_.push_back(std::move(bytes));
  if (!std::exchange(writing_, true)) asio::co_spawn(executor_, write_queue(), asio::detached);
}

asio::awaitable<void> ChildProcess::write_queue() {
  auto self = shared_from_this();
  while (!queue_.empty()) {
    auto bytes = queue_.front();
    error_code error;
    co_await asio::async_write(in_, asio::buffer(*bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    queue_.pop_front();
    queued_ -= bytes->size();
    if (error) {  // it has closed its standard input; its end will tell why
      error_code ignored;
      in_.close(ignored);
      queue_.clear();
      queued_ = 0;
    }
  }
  writing_ = false;
}

asio::awaitable<void> ChildProcess::wait_for_exit() {
  auto self = shared_from_this();
  base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  int status = 0;
  error_code ignored;
  if (pidfd) {
    Stream exit(executor_, pidfd.release());
    co_await exit.async_wait(Stream::wait_read, asio::redirect_error(asio::use_awaitable, ignored));
    ::waitpid(pid_, &status, 0);
  } else {  // an old kernel
    asio::steady_timer timer(executor_);
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      timer.expires_after(std::chrono::milliseconds(20));
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

  // Its output may still be on the way; a grandchild that keeps a pipe open does not hold us up.
  asio::steady_timer grace(executor_, std::chrono::seconds(1));
  end_if_over();
  if (events_.on_end) {
    co_await grace.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    open_streams_ = 0;
    end_if_over();
  }
}

void ChildProcess::end_if_over() {
  if (exit_code_ < 0 || open_streams_ > 0 || !events_.on_end) return;
  error_code ignored;
  in_.close(ignored);
  out_.close(ignored);
  err_.close(ignored);
  auto events = std::exchange(events_, {});  // they may hold who holds us
  events.on_end(exit_code_);
}

void ChildProcess::close() {
  error_code ignored;
  in_.close(ignored);
  if (exit_code_ >= 0 || std::exchange(closing_, true)) return;
  ::kill(-pid_, SIGTERM);
  auto timer = std::make_shared<asio::steady_timer>(executor_, kToEnd);
  timer->async_wait([timer, self = shared_from_this()](error_code) {
    if (self->exit_code_ < 0) ::kill(-self->pid_, SIGKILL);
  });
}

}  // namespace hv::launcher
