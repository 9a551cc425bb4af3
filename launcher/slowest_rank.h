// Which rank the others wait for most, from what each has waited. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/deadline.h"

namespace hv::launcher {

struct RankWait {
  int rank = 0;
  std::string host;
  std::uint64_t operations = 0;
  std::int64_t waited_us = 0;  // with something submitted that not all ranks had submitted
};

// The one that has waited least has come last most often; the others' waiting beyond its own is
// what they have waited for it. nullopt: fewer than two ranks have done anything.
struct SlowestRank {
  int rank = 0;
  std::string host;
  double seconds = 0;  // that the others have waited for it, on average
};
std::optional<SlowestRank> find_slowest(const std::vector<RankWait>& ranks);

// A sentence for the end of a job. nullopt: it was less than a fifth of the time, or the job took
// less than a minute (`always`: not even half a second).
std::optional<std::string> describe_slowest(const std::vector<RankWait>& ranks,
                                            base::Millis job_time, bool always);

// The same while a job runs, from one look to the next.
class SlowestWatch {
 public:
  // What the ranks have waited so far. A sentence, where it was a fifth of the time since the last
  // look, or more.
  std::optional<std::string> look(const std::vector<RankWait>& so_far, base::Millis since_last);

 private:
  std::map<int, RankWait> before_;
};

}  // namespace hv::launcher
