#include "launcher/slowest_rank.h"

#include <algorithm>
#include <cstdio>

namespace hv::launcher {

namespace {

constexpr double kLongJob = 60, kShareWorthTelling = 0.2, kMeasurable = 0.5;  // seconds

std::string one_decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

double seconds(base::Millis time) { return static_cast<double>(time.count()) / 1000; }

std::string name(const SlowestRank& slowest) {
  return "rank " + std::to_string(slowest.rank) + " on " + slowest.host;
}

}  // namespace

std::optional<SlowestRank> find_slowest(const std::vector<RankWait>& ranks) {
  std::vector<RankWait> working;
  std::ranges::copy_if(ranks, std::back_inserter(working),
                       [](const RankWait& rank) { return rank.operations > 0; });
  if (working.size() < 2) return std::nullopt;
  const auto& slowest = *std::ranges::min_element(working, {}, &RankWait::waited_us);
  double total = 0;
  for (const auto& rank : working) {
    total += static_cast<double>(rank.waited_us - slowest.waited_us) / 1e6;
  }
  return SlowestRank{slowest.rank, slowest.host, total / static_cast<double>(working.size() - 1)};
}

std::optional<std::string> describe_slowest(const std::vector<RankWait>& ranks,
                                            base::Millis job_time, bool always) {
  auto slowest = find_slowest(ranks);
  if (!slowest) return std::nullopt;
  double whole = seconds(job_time), each = slowest->seconds;
  bool telling =
      always ? each >= kMeasurable : whole >= kLongJob && each >= whole * kShareWorthTelling;
  if (!telling) return std::nullopt;
  return name(*slowest) + " was waited for most: the other ranks waited " + one_decimal(each) +
         " s for it, of " + one_decimal(whole) + " s; to look at its host: hvrun --probe";
}

std::optional<std::string> SlowestWatch::look(const std::vector<RankWait>& so_far,
                                              base::Millis since_last) {
  std::vector<RankWait> since;
  for (const auto& rank : so_far) {
    auto& before = before_[rank.rank];
    since.push_back({rank.rank, rank.host, rank.operations - before.operations,
                     rank.waited_us - before.waited_us});
    before = rank;
  }
  auto slowest = find_slowest(since);
  if (!slowest || slowest->seconds < seconds(since_last) * kShareWorthTelling) return std::nullopt;
  return name(*slowest) + " is waited for most: the other ranks have waited " +
         one_decimal(slowest->seconds) + " s for it in the last " +
         one_decimal(seconds(since_last)) + " s; to look at its host: hvrun --probe";
}

}  // namespace hv::launcher
