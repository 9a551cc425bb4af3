#include "runtime/collective/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "rendezvous/base/text.h"

namespace hv::runtime {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
constexpr int kAnyCount = std::numeric_limits<int>::max();

// First row whose limits hold. Values: measured on 2-core hosts, one switch.
struct LocalRow {
  std::size_t max_bytes;
  int max_ranks;
  LocalAlgorithm algorithm;
  std::size_t chunk_bytes;
};
constexpr std::array kLocal{
    LocalRow{16u << 10, kAnyCount, LocalAlgorithm::kFlat, 16u << 10},
    LocalRow{1u << 20, kAnyCount, LocalAlgorithm::kSlices, 128u << 10},
    LocalRow{kAny, kAnyCount, LocalAlgorithm::kSlices, 256u << 10},
};

struct CrossRow {
  std::size_t max_bytes;
  int max_hosts;
  bool powers_of_two_only;
  CrossAlgorithm algorithm;
  bool leaders_only;  // one owner per host
  std::size_t chunk_bytes;
};
constexpr std::array kCross{
    CrossRow{4u << 10, kAnyCount, false, CrossAlgorithm::kDoubling, true, 4u << 10},
    CrossRow{16u << 10, 4, false, CrossAlgorithm::kDoubling, true, 16u << 10},
    CrossRow{kAny, 16, false, CrossAlgorithm::kDirect, false, 512u << 10},
    CrossRow{kAny, kAnyCount, true, CrossAlgorithm::kHalving, false, 1u << 20},
    CrossRow{kAny, kAnyCount, false, CrossAlgorithm::kDirect, false, 1u << 20},
};

constexpr std::size_t kInPlaceBytes = 16u << 10;  // below, the copies cost less than a second wait

constexpr std::array kLocalNames{LocalAlgorithm::kFlat, LocalAlgorithm::kSlices};
constexpr std::array kCrossNames{CrossAlgorithm::kDirect, CrossAlgorithm::kDoubling,
                                 CrossAlgorithm::kHalving, CrossAlgorithm::kTree,
                                 CrossAlgorithm::kRing};

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

void override_table(Plan& plan, const Sizes& sizes, const Tuning& tuning) {
  if (tuning.local) plan.local = *tuning.local;
  if (!tuning.cross) return;
  if (tuning.cross == CrossAlgorithm::kHalving && !is_power_of_two(sizes.hosts)) return;
  const bool reorders = tuning.cross == CrossAlgorithm::kRing;
  if (reorders && tuning.determinism != Determinism::kOff) return;
  plan.cross = *tuning.cross;
}

}  // namespace

std::string_view to_string(LocalAlgorithm algorithm) {
  switch (algorithm) {
    case LocalAlgorithm::kFlat:
      return "flat";
    case LocalAlgorithm::kSlices:
      return "slices";
    case LocalAlgorithm::kInPlace:
      return "in-place";
  }
  return "unknown";
}

std::string_view to_string(CrossAlgorithm algorithm) {
  switch (algorithm) {
    case CrossAlgorithm::kDirect:
      return "direct";
    case CrossAlgorithm::kDoubling:
      return "doubling";
    case CrossAlgorithm::kHalving:
      return "halving";
    case CrossAlgorithm::kTree:
      return "tree";
    case CrossAlgorithm::kRing:
      return "ring";
    case CrossAlgorithm::kByRank:
      return "by-rank";
  }
  return "unknown";
}

base::Result<Tuning> with_algorithms(Tuning tuning, std::string_view names) {
  for (auto name : base::split(names, ',')) {
    const auto local = std::find_if(kLocalNames.begin(), kLocalNames.end(),
                                    [&](auto a) { return to_string(a) == name; });
    const auto cross = std::find_if(kCrossNames.begin(), kCrossNames.end(),
                                    [&](auto a) { return to_string(a) == name; });
    if (local != kLocalNames.end()) {
      tuning.local = *local;
    } else if (cross != kCrossNames.end()) {
      tuning.cross = *cross;
    } else {
      std::vector<std::string> known;
      for (auto a : kLocalNames) known.emplace_back(to_string(a));
      for (auto a : kCrossNames) known.emplace_back(to_string(a));
      return base::fail(base::Code::kUsage, "no algorithm is called \"" + std::string(name) +
                                                "\"; known are " + base::join(known, ", "));
    }
  }
  return tuning;
}

Plan choose_plan(OpKind kind, std::size_t bytes, bool may_be_in_place, const Sizes& sizes,
                 const Tuning& tuning) {
  Plan plan;
  if (sizes.hosts == 1) {
    const auto row = std::find_if(kLocal.begin(), kLocal.end(), [&](const LocalRow& r) {
      return bytes <= r.max_bytes && sizes.ranks <= r.max_ranks;
    });
    plan.local = row->algorithm;
    plan.owners = sizes.ranks;
    plan.chunk_bytes = row->chunk_bytes;
  } else {
    const auto row = std::find_if(kCross.begin(), kCross.end(), [&](const CrossRow& r) {
      return bytes <= r.max_bytes && sizes.hosts <= r.max_hosts &&
             (!r.powers_of_two_only || is_power_of_two(sizes.hosts));
    });
    plan.cross = row->algorithm;
    plan.owners = row->leaders_only || tuning.one_owner ? 1 : sizes.smallest_host;
    plan.chunk_bytes = row->chunk_bytes;
  }
  override_table(plan, sizes, tuning);
  if (sizes.hosts > 1 && is_reduction(kind) && tuning.determinism == Determinism::kPlacement) {
    plan.cross = CrossAlgorithm::kByRank;
    plan.owners = sizes.smallest_host;
  }
  if (sizes.hosts > 1 || kind != OpKind::kAllreduce) plan.local = LocalAlgorithm::kSlices;
  if (sizes.hosts == 1 && may_be_in_place && bytes >= kInPlaceBytes) {
    plan.local = LocalAlgorithm::kInPlace;
  }
  plan.chunk_bytes = std::min(plan.chunk_bytes, tuning.slot_bytes);
  return plan;
}

std::string name_of(const Plan& plan, const Sizes& sizes) {
  if (sizes.ranks == 1) return "self";
  if (sizes.hosts == 1) return "shm-" + std::string(to_string(plan.local));
  return "tcp-" + std::string(to_string(plan.cross));
}

}  // namespace hv::runtime
