// A rank that reduces in a loop and misbehaves on request: world_loop STEPS [WHAT RANK STEP].
//   exit0, exit3   _exit with that code before the step (step -1: before hv::init)
//   kill           SIGKILL to itself before the step
//   slow           late for this step and all after it, by 50 ms
//   tell           that rank prints "joined" after init
//   places         every rank prints its place after init
//   quiet          leaves the world after init and exits 0 long before the others end
// Ends with 0 when all went well, 1 with the error on standard error.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "hv/hv.h"

namespace {

void misbehave(const std::string& what) {
  if (what == "exit0") ::_exit(0);
  if (what == "exit3") ::_exit(3);
  if (what == "kill") ::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 1;
  std::string what = argc > 4 ? argv[2] : "";
  int culprit = argc > 4 ? std::atoi(argv[3]) : -1;
  int when = argc > 4 ? std::atoi(argv[4]) : -1;
  const char* rank_text = std::getenv("HVRUN_RANK");
  if (rank_text == nullptr) rank_text = std::getenv("SLURM_PROCID");  // started by srun itself
  int rank = rank_text != nullptr ? std::atoi(rank_text) : 0;
  if (rank == culprit && when == -1) misbehave(what);
  try {
    auto world = hv::init();
    if (what == "tell" && rank == culprit) {
      std::puts("joined");
      std::fflush(stdout);
    }
    if (what == "places") {
      std::printf("rank %d: local %d of %d, cross %d of %d\n", rank, world.local_rank(),
                  world.local_size(), world.cross_rank(), world.cross_size());
    }
    if (what == "quiet") {
      if (rank != culprit) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return 0;
    }
    std::vector<float> gradient(1000, 1.0F);
    for (int step = 0; step < steps; ++step) {
      if (rank == culprit && step == when) misbehave(what);
      if (rank == culprit && step >= when && what == "slow") {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      world.allreduce("gradient", hv::view(gradient)).wait();
    }
    world.shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
  return 0;
}
