// What the peer programs share: their options, and the measuring method, which is that of hvbench.
// Every call works on a freshly written buffer and starts from a barrier; of each call the slowest
// rank's time counts; of all calls the median. Results are checked exactly.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace peers {

// "--name value" pairs; anything else ends the program with its usage.
class Arguments {
 public:
  Arguments(int argc, char** argv, const char* usage) : usage_(usage) {
    for (int i = 1; i < argc; i += 2) {
      if (i + 1 == argc || std::strncmp(argv[i], "--", 2) != 0) fail();
      values_[argv[i] + 2] = argv[i + 1];
    }
  }
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) fail();
    return found->second;
  }
  std::int64_t number(const std::string& name) const {
    const std::string value = text(name);
    char* end = nullptr;
    const std::int64_t parsed = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0') fail();
    return parsed;
  }

 private:
  [[noreturn]] void fail() const {
    std::fprintf(stderr, "usage: %s\n", usage_);
    std::exit(2);
  }
  const char* usage_;
  std::map<std::string, std::string> values_;
};

// One rank of a job of a peer. All calls are collective.
class Job {
 public:
  virtual ~Job() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  virtual void allreduce(std::vector<float>& inout) = 0;                      // sum, in place
  virtual std::vector<double> slowest(const std::vector<double>& times) = 0;  // maximum over ranks
};

// The value that this share of all values does not exceed.
inline double percentile(std::vector<double> values, double fraction) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  std::sort(values.begin(), values.end());
  return values[std::max<std::size_t>(rank, 1) - 1];
}

// Small whole numbers, so that sums are exact whatever their order.
inline float value_of(std::size_t index, int rank, int turn) {
  return static_cast<float>((index & 15) + static_cast<std::size_t>(rank + (turn & 7)));
}

inline void fill(std::vector<float>& buffer, int rank, int turn) {
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value_of(i, rank, turn);
}

inline std::size_t wrong(const std::vector<float>& result, int ranks, int turn) {
  const auto others = static_cast<float>(ranks * (ranks - 1) / 2);
  std::size_t bad = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    bad += result[i] != static_cast<float>(ranks) * value_of(i, 0, turn) + others ? 1 : 0;
  }
  return bad;
}

inline void measure_size(Job& job, std::size_t count, int iters, int warmup) {
  std::vector<float> buffer(count);
  std::vector<double> times;
  std::size_t bad = 0;
  for (int turn = 0; turn < warmup + iters; ++turn) {
    fill(buffer, job.rank(), turn);
    job.barrier();
    const auto start = std::chrono::steady_clock::now();
    job.allreduce(buffer);
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    if (turn >= warmup) times.push_back(taken.count());
    bad += wrong(buffer, job.size(), turn);
  }
  const std::vector<double> worst = job.slowest(times);
  const double bad_anywhere = job.slowest({static_cast<double>(bad)})[0];
  if (job.rank() != 0) return;
  std::printf(
      "{\"op\":\"allreduce\",\"bytes\":%zu,\"count\":%zu,\"dtype\":\"float32\",\"time_us\":%.3f,"
      "\"p99_us\":%.3f,\"wrong\":%.0f,\"ranks\":%d}\n",
      count * sizeof(float), count, percentile(worst, 0.5), percentile(worst, 0.99), bad_anywhere,
      job.size());
  std::fflush(stdout);
}

inline void measure(Job& job, const Arguments& arguments) {
  const auto max = static_cast<std::size_t>(arguments.number("max-bytes"));
  const auto factor = static_cast<std::size_t>(arguments.number("factor"));
  for (auto bytes = static_cast<std::size_t>(arguments.number("min-bytes")); bytes <= max;
       bytes *= factor) {
    measure_size(job, bytes / sizeof(float), static_cast<int>(arguments.number("iters")),
                 static_cast<int>(arguments.number("warmup")));
  }
}

}  // namespace peers
