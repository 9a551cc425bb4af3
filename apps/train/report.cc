#include "apps/train/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace hv::train {
namespace {

constexpr int kBarWidth = 30;

// Under hvrun, a pipe leads to its terminal.
bool is_seen_at_once() {
  return ::isatty(STDOUT_FILENO) == 1 || std::getenv("HVRUN_TERMINAL") != nullptr;
}

}  // namespace

Report::Report(bool speaks, const std::string& json)
    : speaks_(speaks), bar_(speaks && is_seen_at_once()), path_(json) {
  if (!speaks_ || path_.empty()) return;
  file_.open(path_, std::ios::trunc);
  if (!file_) throw std::runtime_error("cannot write to " + path_ + " (--json)");
}

void Report::note(const std::string& line) {
  if (!speaks_) return;
  clear_bar();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Report::progress(std::int64_t epoch, std::int64_t step, std::int64_t steps) {
  if (!bar_) return;
  const auto filled = static_cast<std::size_t>(kBarWidth * step / steps);
  const std::string done(filled, '#'), left(kBarWidth - filled, '.');
  std::printf("epoch %lld  [%s%s] %lld/%lld\r", static_cast<long long>(epoch), done.c_str(),
              left.c_str(), static_cast<long long>(step), static_cast<long long>(steps));
  std::fflush(stdout);
  bar_shown_ = true;
}

void Report::clear_bar() {
  if (bar_shown_) std::printf("\033[K");
  bar_shown_ = false;
}

void Report::epoch(const EpochFigures& figures) {
  char line[160];
  std::snprintf(line, sizeof line, "epoch %lld/%lld  loss %.8f  accuracy %.4f  samples/s %.0f",
                static_cast<long long>(figures.epoch), static_cast<long long>(figures.epochs),
                figures.loss, figures.accuracy, figures.samples_per_second);
  note(line);
  write_json(nlohmann::ordered_json{{"epoch", figures.epoch},
                                    {"loss", figures.loss},
                                    {"accuracy", figures.accuracy},
                                    {"samples_per_s", figures.samples_per_second}}
                 .dump());
}

void Report::finish(const FinalFigures& figures) {
  char line[160];
  std::snprintf(line, sizeof line, "test accuracy %.4f  loss %.8f  ranks %d  samples/s %.0f",
                figures.test_accuracy, figures.loss, figures.ranks, figures.samples_per_second);
  note(line);
  write_json(nlohmann::ordered_json{{"test_accuracy", figures.test_accuracy},
                                    {"loss", figures.loss},
                                    {"ranks", figures.ranks},
                                    {"samples_per_s", figures.samples_per_second}}
                 .dump());
}

void Report::write_json(const std::string& line) {
  if (!speaks_ || path_.empty()) return;
  file_ << line << '\n' << std::flush;
  if (!file_) throw std::runtime_error("cannot write to " + path_ + " (--json)");
}

}  // namespace hv::train
