#include "runtime/process_sets.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "hv/types.h"
#include "rendezvous/base/text.h"

namespace hv::runtime {
namespace {

base::Result<std::vector<int>> wrong(const std::string& why) {
  return base::fail(base::Code::kInvalidArgument, "process set: " + why);
}

std::string text_of(const std::vector<int>& ranks) {
  return to_string(Shape(ranks.begin(), ranks.end()));
}

}  // namespace

ProcessSets::ProcessSets(int rank, int size) : rank_(rank), size_(size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  add(0, std::move(all));
}

base::Result<std::vector<int>> ProcessSets::check(std::vector<int> ranks) const {
  if (ranks.empty()) return wrong("it has no ranks");
  std::sort(ranks.begin(), ranks.end());
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) {
    return wrong(text_of(ranks) + " names a rank twice");
  }
  if (ranks.front() < 0 || ranks.back() >= size_) {
    return wrong(text_of(ranks) + " names a rank that is not one of 0 to " +
                 std::to_string(size_ - 1));
  }
  for (const Set& set : list()) {
    if (set->ranks == ranks) {
      return wrong("there is one of the ranks " + text_of(ranks) + " already, number " +
                   std::to_string(set->set));
    }
  }
  return ranks;
}

ProcessSets::Set ProcessSets::add(std::int32_t id, std::vector<int> ranks) {
  auto members = std::make_shared<Members>();
  const auto self = std::lower_bound(ranks.begin(), ranks.end(), rank_);
  const bool included = self != ranks.end() && *self == rank_;
  members->set = id;
  members->index = included ? static_cast<int>(self - ranks.begin()) : -1;
  members->ranks = std::move(ranks);
  std::lock_guard lock(mutex_);
  sets_.push_back(members);
  return members;
}

void ProcessSets::remove(std::int32_t id) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [id](const Set& set) { return set->set == id; });
  if (found == sets_.end()) return;
  (*found)->removed = true;
  sets_.erase(found);
}

ProcessSets::Set ProcessSets::find(std::int32_t id) const {
  std::lock_guard lock(mutex_);
  for (const Set& set : sets_) {
    if (set->set == id) return set;
  }
  return nullptr;
}

std::vector<ProcessSets::Set> ProcessSets::list() const {
  std::lock_guard lock(mutex_);
  return sets_;
}

base::Result<std::vector<std::vector<int>>> parse_process_sets(std::string_view text) {
  std::vector<std::vector<int>> sets;
  for (auto part : base::split(text, ';')) {
    auto& ranks = sets.emplace_back();
    for (auto item : base::split(part, ',')) {
      const auto dash = item.find('-');
      const auto first = base::parse_int(item.substr(0, dash));
      const auto last =
          dash == std::string_view::npos ? first : base::parse_int(item.substr(dash + 1));
      if (!first || !last || *first < 0 || *last < *first || *last > 1'000'000) {
        return base::fail(base::Code::kUsage,
                          "'" + std::string(item) + "' is neither a rank nor a range of ranks");
      }
      for (auto rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<int>(rank));
    }
  }
  return sets;
}

}  // namespace hv::runtime
