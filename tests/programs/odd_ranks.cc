// Ranks of which one does something else: odd_ranks WHAT RANK. All reduce g0 … g16, one after the
// other; then, instead of joining in g17, RANK
//   sleep    sleeps for a minute
//   stop     stops itself (SIGSTOP)
//   exit     exits with code 3
//   order    waits for h17 first, the others for it after g17
//   extra    alone broadcasts 'extra', which the others know nothing of
//   steps    nothing odd: g0 … g16 again and again, until it is killed; says when it is going
//   trace    nothing odd: a timeline of its own, by the API, of two tensors
//   leave    nothing odd: every rank goes after a time of its own, by shutdown if its number is
//   even,
//            else by the end of its World
// Before hv::init: late    sleeps for a minute
// Ends with 0 when all went well, 1 with the error on standard error.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hv/hv.h"

namespace {

std::vector<float> gradient(1000, 1.0F);

void reduce(hv::World& world, const std::string& name) {
  world.allreduce(name, hv::view(gradient)).wait();
}

void say_going() {
  std::puts("going");
  std::fflush(stdout);
}

void sleep_long() { std::this_thread::sleep_for(std::chrono::minutes(1)); }

void trace(hv::World& world, const std::string& path) {
  try {
    world.start_timeline(path, true);
  } catch (const hv::Error& error) {  // told before the end of our World ends the job
    std::fprintf(stderr, "%s\n", error.what());
    throw;
  }
  world.barrier("started").wait();
  reduce(world, "traced");
  world.broadcast("also", hv::view(gradient), 0).wait();
  world.barrier("traced all").wait();
  world.stop_timeline();
  reduce(world, "not traced");
}

void be_odd(hv::World& world, const std::string& what) {
  if (what == "sleep") sleep_long();
  if (what == "stop") ::raise(SIGSTOP);
  if (what == "exit") {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others wait by then
    ::_exit(3);
  }
  if (what == "order") reduce(world, "h17");
  if (what == "extra") world.broadcast("extra", hv::view(gradient), world.rank()).wait();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int odd = argc > 2 ? std::atoi(argv[2]) : -1;
  const char* rank_text = std::getenv("HVRUN_RANK");
  const int rank = rank_text != nullptr ? std::atoi(rank_text) : 0;
  try {
    if (what == "late" && rank == odd) sleep_long();
    auto world = hv::init();
    bool told = false;
    do {
      for (int i = 0; i < 17; ++i) reduce(world, "g" + std::to_string(i));
      if (what == "steps" && !std::exchange(told, true)) say_going();
    } while (what == "steps");
    if (what == "trace" && argc > 3) trace(world, argv[3]);
    if (rank == odd) be_odd(world, what);
    reduce(world, "g17");
    if (what == "order") reduce(world, "h17");
    if (what == "leave") {
      std::mt19937 dice(static_cast<unsigned>(::getpid()));
      std::this_thread::sleep_for(std::chrono::milliseconds(dice() % 100));
      if (rank % 2 == 1) return 0;
    }
    world.shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
  return 0;
}
