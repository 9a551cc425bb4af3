// Where running jobs of this user are found: a folder for each, in $XDG_RUNTIME_DIR/hvrun or,
// without that, /tmp/hvrun-UID, for this user only. It holds a file with process and command, for a
// detached job its output, and at the end its exit code. A lock on that file, held by hvrun as long
// as it lives, tells a running job from one that was killed.
//
// Thread: main's. Failure: Result; a job whose folder cannot be made runs without one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

// The folder of the job that this process is.
class JobFolder {
 public:
  static base::Result<JobFolder> make(const std::vector<std::string>& command, bool detached);

  const std::string& name() const { return name_; }
  std::string file(const std::string& what) const { return path_ + "/" + what; }
  void describe(int pid) const;  // this process, or the one that goes on
  // Notes the exit code for those who attach; the folder of a job that is not detached goes.
  void end(int exit_code) const;

 private:
  std::string name_, path_, command_;
  bool detached_ = false;
  base::UniqueFd file_;  // locked
};

struct KnownJob {
  std::string name, path;
  std::string command;
  int pid = 0;
  bool running = false, detached = false;
  std::optional<int> exit_code;
  std::string started_at;
};

std::vector<KnownJob> known_jobs();  // running first, then detached ones that have ended
// By its name or the beginning of it. kUsage names those there are.
base::Result<KnownJob> find_job(const std::string& name);

}  // namespace hv::apps
