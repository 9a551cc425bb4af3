// What memory allows: several processes copy at once, each from its own buffer to another. Bytes
// read and bytes written both count, as in STREAM. Source buffers are rewritten before each copy,
// the slowest process's time counts, the median of all copies; the better of memcpy and a plain
// loop.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "measure.h"

namespace {

constexpr std::size_t kMaxProcesses = 64;

struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  double times[kMaxProcesses] = {};
};

void barrier(Shared& shared, int processes) {
  const int round = shared.round.load();
  if (shared.arrived.fetch_add(1) + 1 == processes) {
    shared.arrived = 0;
    shared.round = round + 1;
    return;
  }
  for (int spins = 0; shared.round.load() == round; ++spins) {
    if (spins > 1000) usleep(20);
  }
}

using Copy = void (*)(float*, const float*, std::size_t);

void copy_memcpy(float* to, const float* from, std::size_t count) {
  std::memcpy(to, from, count * sizeof(float));
}

// Kept a loop by the flags it is built with; plain stores, which read the line first.
void copy_loop(float* __restrict to, const float* __restrict from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

double median_us(Shared& shared, int me, int processes, Copy copy, std::size_t count, int iters,
                 int warmup) {
  std::vector<float> from(count);
  std::vector<float> to(count);
  std::vector<double> slowest;
  for (int turn = 0; turn < warmup + iters; ++turn) {
    peers::fill(from, me, turn);
    barrier(shared, processes);
    const auto start = std::chrono::steady_clock::now();
    copy(to.data(), from.data(), count);
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    shared.times[me] = taken.count();
    barrier(shared, processes);
    if (to[count / 2] != from[count / 2]) std::abort();  // also keeps the copy from being left out
    if (turn >= warmup) {
      slowest.push_back(*std::max_element(shared.times, shared.times + processes));
    }
    barrier(shared, processes);
  }
  return peers::percentile(slowest, 0.5);
}

void run(Shared& shared, int me, int processes, const peers::Arguments& arguments) {
  const auto max = static_cast<std::size_t>(arguments.number("max-bytes"));
  const auto factor = static_cast<std::size_t>(arguments.number("factor"));
  const auto iters = static_cast<int>(arguments.number("iters"));
  const auto warmup = static_cast<int>(arguments.number("warmup"));
  for (auto bytes = static_cast<std::size_t>(arguments.number("min-bytes")); bytes <= max;
       bytes *= factor) {
    const std::size_t count = bytes / sizeof(float);
    const double time =
        std::min(median_us(shared, me, processes, copy_memcpy, count, iters, warmup),
                 median_us(shared, me, processes, copy_loop, count, iters, warmup));
    if (me != 0) continue;
    std::printf("{\"op\":\"copy\",\"bytes\":%zu,\"time_us\":%.3f,\"copy_gbs\":%.3f,\"ranks\":%d}\n",
                bytes, time, 2e-3 * static_cast<double>(bytes) * processes / time, processes);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments(
      argc, argv,
      "membw --processes N --min-bytes N --max-bytes N --factor N --iters N --warmup N");
  const auto processes = static_cast<int>(arguments.number("processes"));
  if (processes < 1 || processes > static_cast<int>(kMaxProcesses)) return 2;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("membw: mmap");
    return 1;
  }
  auto& shared = *new (memory) Shared;
  for (int child = 1; child < processes; ++child) {
    if (fork() == 0) {
      run(shared, child, processes, arguments);
      _exit(0);
    }
  }
  run(shared, 0, processes, arguments);
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed += status != 0 ? 1 : 0;
  return failed;
}
