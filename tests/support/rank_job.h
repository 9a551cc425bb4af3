// Ranks as real processes against a real rendezvous server, without a launcher: the test's own
// binary is started once per rank and runs a program that it has registered by name.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hv/hv.h"

namespace hv::tests {

// HV_RANK_PROGRAM(name) { … return exit code; }: runs in a process of its own.
struct RankProgram {
  RankProgram(const char* name, int (*main)());
};
#define HV_RANK_PROGRAM(name)                                                      \
  static int name##_program();                                                     \
  static const ::hv::tests::RankProgram name##_registered(#name, &name##_program); \
  static int name##_program()

// For the test's main(): runs the program and ends the process if it was started as a rank.
void run_as_rank(int argc, char** argv);

// hv::init(), with the host that the job pretends for this rank.
World join_job();

struct JobOptions {
  std::string program;
  std::vector<int> ranks_per_host;
  std::vector<std::string> environment;  // "NAME=value"
};

class RankJob {
 public:
  explicit RankJob(JobOptions options);
  ~RankJob();  // whatever still runs is killed

  // 128 + signal for a death by signal. Kills the rank and throws after `limit`.
  int wait(int rank, std::chrono::seconds limit = std::chrono::seconds(200));
  std::vector<int> wait_all(std::chrono::seconds limit = std::chrono::seconds(200));
  void signal(int rank, int number);
  // Waits until the rank has written this text to its output.
  void wait_for_output(int rank, const std::string& text);
  std::string output(int rank);
  // The server sees its connection end without a goodbye, now or within 10 s.
  bool hears_lost(int rank);

 private:
  struct Process;
  class Home;
  std::unique_ptr<Home> home_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace hv::tests
