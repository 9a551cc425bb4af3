#include "apps/hvrun/job_commands.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "launcher/report.h"
#include "rendezvous/base/deadline.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;
using namespace std::chrono_literals;

namespace {

constexpr auto kLook = 50ms;  // between looks at a job that is waited for

std::string state_of(const KnownJob& job) {
  if (job.running) return "running";
  return job.exit_code ? "ended with code " + std::to_string(*job.exit_code) : "was killed";
}

// What has been added to a file since the last look goes to `to`.
class Follower {
 public:
  Follower(const std::string& path, int to)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), to_(to) {}
  void copy() {
    std::array<char, 64 * 1024> bytes;
    for (ssize_t size; file_ && (size = ::read(file_.get(), bytes.data(), bytes.size())) > 0;) {
      for (ssize_t done = 0, n; done < size; done += n) {
        n = ::write(to_, bytes.data() + done, static_cast<std::size_t>(size - done));
        if (n <= 0) return file_.reset();  // nobody reads it
      }
    }
  }

 private:
  base::UniqueFd file_;
  int to_;
};

// The exit code of a job that has ended.
int code_of(const KnownJob& job) { return job.exit_code.value_or(job.running ? 0 : 128 + SIGKILL); }

Result<KnownJob> wait_for_end(const KnownJob& job, Follower* out, Follower* err) {
  for (;;) {
    auto now = find_job(job.name);
    for (auto* stream : {out, err}) {  // after the look: nothing comes later
      if (stream != nullptr) stream->copy();
    }
    if (!now || !now->running) return now;
    ::poll(nullptr, 0, static_cast<int>(kLook.count()));
  }
}

}  // namespace

Result<bool> detach(const JobFolder& folder) {
  base::UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto create = [&](const char* what) {
    return base::UniqueFd(::open(folder.file(what).c_str(),
                                 O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  };
  auto out = create("stdout");
  auto err = create("stderr");
  if (!in || !out || !err) return fail(base::system_error(folder.file("stdout"), errno));
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return fail(base::system_error("pipe", errno));
  base::UniqueFd hears(ready[0]), tells(ready[1]);
  std::fflush(nullptr);
  pid_t pid = ::fork();
  if (pid < 0) return fail(base::system_error("fork", errno));
  if (pid > 0) {
    // From when we end on, the job must neither die with our session nor be unknown.
    tells.reset();
    char byte = 0;
    ssize_t n = 0;
    do {
      n = ::read(hears.get(), &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
      return fail(
          {base::Code::kInternal, "the job ended before it was a session of its own", {}, 0});
    }
    std::printf("%s\n", folder.name().c_str());
    return false;
  }
  ::setsid();
  ::dup2(in.get(), 0);
  ::dup2(out.get(), 1);
  ::dup2(err.get(), 2);
  folder.describe(::getpid());
  [[maybe_unused]] auto told = ::write(tells.get(), "", 1);
  return true;
}

Result<int> list_jobs() {
  for (const auto& job : known_jobs()) {
    std::printf("%s  %-7d  %s  %-20s %s\n", job.name.c_str(), job.pid, job.started_at.c_str(),
                state_of(job).c_str(), job.command.c_str());
  }
  return 0;
}

Result<int> show_status(const std::string& name) {
  auto job = find_job(name);
  if (!job) return fail(job.error());
  std::printf("job      %s\nstate    %s\npid      %d\nstarted  %s\ncommand  %s\n",
              job->name.c_str(), state_of(*job).c_str(), job->pid, job->started_at.c_str(),
              job->command.c_str());
  if (job->detached) std::printf("output   %s/stdout, stderr\n", job->path.c_str());
  return job->running ? 0 : code_of(*job);
}

Result<int> attach(const std::string& name) {
  auto job = find_job(name);
  if (!job) return fail(job.error());
  if (!job->detached) {
    return fail(Code::kUsage, "job " + job->name +
                                  " was not started with --detach: its output goes to "
                                  "where it was started");
  }
  Follower out(job->path + "/stdout", 1), err(job->path + "/stderr", 2);
  auto ended = wait_for_end(*job, &out, &err);
  if (!ended) return fail(ended.error());
  return code_of(*ended);
}

Result<int> stop(const std::string& name) {
  auto job = find_job(name);
  if (!job) return fail(job.error());
  if (!job->running) return fail(Code::kUsage, "job " + job->name + " " + state_of(*job));
  if (::kill(job->pid, SIGTERM) != 0) {
    return fail(base::system_error("process " + std::to_string(job->pid), errno));
  }
  auto ended = wait_for_end(*job, nullptr, nullptr);
  if (ended && !ended->exit_code) return fail(Code::kSystem, "job " + job->name + " was killed");
  return 0;
}

}  // namespace hv::apps
