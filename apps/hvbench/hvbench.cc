// hvbench: times collectives and checks their results. Reads as its passes: command line, world,
// sizes, report.
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "apps/hvbench/bench.h"
#include "apps/hvbench/figures.h"
#include "apps/hvbench/models.h"
#include "apps/hvbench/options.h"
#include "apps/hvbench/sizes.h"

namespace hv::bench {
namespace {

// Purpose: rank 0's table and JSON lines; silent on the other ranks. Thread: the caller's. Owns the
// file. Throws std::runtime_error where that cannot be written.
class Report {
 public:
  Report(bool speaks, const std::string& json) : speaks_(speaks), path_(json) {
    if (!speaks_) return;
    if (!path_.empty()) file_.open(path_, std::ios::trunc);
    check();
    std::printf("%s\n", table_head().c_str());
  }

  void add(const Figures& figures) {
    wrong_ += figures.wrong;
    if (!speaks_) return;
    std::printf("%s\n", table_row(figures).c_str());
    std::fflush(stdout);
    if (path_.empty()) return;
    file_ << json_row(figures) << '\n' << std::flush;
    check();
  }

  void say(const std::string& line) const {
    if (speaks_) std::printf("# %s\n", line.c_str());
  }

  std::int64_t wrong() const { return wrong_; }

 private:
  void check() const {
    if (!file_) throw std::runtime_error("cannot write to " + path_ + " (--json)");
  }

  bool speaks_;
  std::string path_;
  std::ofstream file_;
  std::int64_t wrong_ = 0;
};

void run_sizes(const World& world, const Options& options, Bench& bench, Report& report) {
  if (options.op == Operation::kBarrier) {
    const std::vector<std::int64_t> nothing(static_cast<std::size_t>(options.tensors), 0);
    return report.add(bench.measure(nothing, options.raw));
  }
  auto per_count = static_cast<std::int64_t>(size_of(options.dtype));
  if (has_blocks(options.op)) per_count *= world.size();
  for (std::int64_t bytes : ladder(options.min_bytes, options.max_bytes, options.factor)) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(options.tensors),
                                           bytes / per_count);
    report.add(bench.measure(counts, options.raw));
  }
}

void run_model(const Options& options, Bench& bench, Report& report) {
  const auto gradients = gradients_of(options.model);
  std::int64_t all = 0;
  for (std::int64_t count : gradients) all += count;
  Figures step = bench.measure(gradients, false);
  step.model = options.model;
  step.bytes = step.total_bytes;  // its tensors differ
  step.count = all;
  report.add(step);
  const Figures one = bench.measure({all}, true);
  report.add(one);
  char line[120];
  std::snprintf(line, sizeof line, "%s: %zu gradients take %.3f times one raw allreduce",
                options.model.c_str(), gradients.size(), step.time_us / one.time_us);
  report.say(line);
}

int run(const Options& options) {
  World world = init();
  Report report(world.rank() == 0, options.json);
  Bench bench(world, options);
  if (options.model.empty()) {
    run_sizes(world, options, bench, report);
  } else {
    run_model(options, bench, report);
  }
  world.shutdown();
  return report.wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hv::bench

int main(int argc, char** argv) {
  const auto options = hv::bench::parse_options(argc, argv);
  try {
    return hv::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hvbench: %s\n", error.what());
    return 1;
  }
}
