#include "apps/hvrun/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "apps/hvrun/words.h"
#include "launcher/line_printer.h"
#include "rendezvous/auth.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"

namespace hv::apps {

using base::Code;
using base::fail;
using base::Result;
namespace fs = std::filesystem;

namespace {

constexpr std::time_t kForgotten = 7 * 24 * 3600;  // an ended detached job, after a week

std::string home_of_jobs() {
  auto runtime = base::env("XDG_RUNTIME_DIR");
  if (runtime && !runtime->empty()) return *runtime + "/hvrun";
  return "/tmp/hvrun-" + std::to_string(::geteuid());
}

// Ours alone: in /tmp anybody may have put something of that name.
Result<std::string> make_home() {
  auto home = home_of_jobs();
  if (::mkdir(home.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(base::system_error(home, errno));
  }
  struct stat info {};
  if (::lstat(home.c_str(), &info) != 0) return fail(base::system_error(home, errno));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return fail(Code::kSystem, home + " does not belong to this user alone; remove it");
  }
  return home;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_locked(const std::string& path) {
  base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

KnownJob read_job(const fs::path& folder) {
  KnownJob job;
  job.name = folder.filename().string();
  job.path = folder.string();
  auto file = [&](const char* what) { return job.path + "/" + what; };
  job.running = is_locked(file("job"));  // before its exit code is looked for
  std::string text = read_file(file("job"));
  auto line = std::min(text.find('\n'), text.size());
  job.pid = static_cast<int>(base::parse_int(text.substr(0, line)).value_or(0));
  job.command = base::trim(std::string_view(text).substr(line));
  job.detached = ::access(file("stdout").c_str(), F_OK) == 0;
  if (auto code = base::parse_int(base::trim(read_file(file("exit"))))) {
    job.exit_code = static_cast<int>(*code);
  }
  struct stat info {};
  if (::stat(file("job").c_str(), &info) == 0) {
    job.started_at = launcher::time_prefix(std::int64_t{info.st_mtime} * 1000).substr(0, 19);
  }
  return job;
}

bool is_forgotten(const KnownJob& job) {
  if (job.running) return false;
  if (!job.detached) return true;  // killed before it could tidy up
  struct stat info {};
  return ::stat(job.path.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtime > kForgotten;
}

}  // namespace

Result<JobFolder> JobFolder::make(const std::vector<std::string>& command, bool detached) {
  auto home = make_home();
  if (!home) return fail(home.error());
  JobFolder folder;
  folder.name_ = rendezvous::Secret::random().hex().substr(0, 8);
  folder.path_ = *home + "/." + folder.name_;  // not yet a job for others
  folder.command_ = quote(command);
  folder.detached_ = detached;
  if (::mkdir(folder.path_.c_str(), 0700) != 0) {
    return fail(base::system_error(folder.path_, errno));
  }
  // The lock belongs to the open file: a process that detaches takes it along.
  folder.file_.reset(::open(folder.file("job").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto final_path = *home + "/" + folder.name_;
  if (!folder.file_ || ::flock(folder.file_.get(), LOCK_EX) != 0 ||
      ::rename(folder.path_.c_str(), final_path.c_str()) != 0) {
    return fail(base::system_error(folder.path_, errno));
  }
  folder.path_ = std::move(final_path);
  folder.describe(::getpid());
  return folder;
}

void JobFolder::describe(int pid) const {
  auto text = std::to_string(pid) + "\n" + command_ + "\n";
  [[maybe_unused]] bool done =
      ::ftruncate(file_.get(), 0) == 0 && ::pwrite(file_.get(), text.data(), text.size(), 0) > 0;
}

void JobFolder::end(int exit_code) const {
  if (!detached_) {
    ::unlink(file("job").c_str());
    ::rmdir(path_.c_str());
    return;
  }
  std::ofstream(file("exit.new")) << exit_code << "\n";
  ::rename(file("exit.new").c_str(), file("exit").c_str());
}

std::vector<KnownJob> known_jobs() {
  std::vector<KnownJob> jobs;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(home_of_jobs(), none)) {
    if (entry.path().filename().string().starts_with('.')) continue;
    auto job = read_job(entry.path());
    if (is_forgotten(job)) {
      fs::remove_all(job.path, none);
    } else {
      jobs.push_back(std::move(job));
    }
  }
  std::ranges::sort(jobs, [](const KnownJob& a, const KnownJob& b) {
    return std::tie(b.running, a.started_at) < std::tie(a.running, b.started_at);
  });
  return jobs;
}

Result<KnownJob> find_job(const std::string& name) {
  auto jobs = known_jobs();
  std::vector<std::string> names;
  std::vector<KnownJob> found;
  for (auto& job : jobs) {
    names.push_back(job.name);
    if (job.name.starts_with(name)) found.push_back(std::move(job));
  }
  if (found.size() == 1) return std::move(found.front());
  std::string what = found.empty() ? "there is no job '" : "there are several jobs '";
  return fail(Code::kUsage, what + name + "' of this user here" +
                                (names.empty() ? "" : "; jobs: " + base::join(names, ", ")) +
                                "\n  See: hvrun --list");
}

}  // namespace hv::apps
