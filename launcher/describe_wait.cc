#include "launcher/describe_wait.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "rendezvous/base/text.h"
#include "rendezvous/recorder.h"

namespace hv::launcher {

namespace {

using rendezvous::OpState;
using rendezvous::OpView;
using rendezvous::Presence;
using rendezvous::RecorderView;

constexpr std::size_t kRanksShown = 8, kAllShown = 64, kNamesShown = 6;
constexpr std::int64_t kJustNowUs = 5'000'000;

// An operation that has not ended where it was submitted.
struct Waiting {
  OpView op;  // as the rank has it that has waited longest
  std::uint64_t batch = 0;
  std::vector<int> have, missing;
  std::vector<int> gone;  // have submitted it, and wait for nothing any more
};

bool is(const OpView& op, OpState state) { return op.state == static_cast<std::uint8_t>(state); }
bool is_pending(const OpView& op) {
  return is(op, OpState::kSubmitted) || is(op, OpState::kRunning);
}
// Ended by what the job has just failed with.
bool has_just_failed(const OpView& op) {
  return is(op, OpState::kFailed) && op.done_us_ago < kJustNowUs;
}

bool has_ended(const RankPicture& rank) {
  const auto state = rank.view.process_state;
  return rank.known && (state == 0 || state == 'Z' || state == 'X');
}

std::string seconds(std::int64_t us) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(us) / 1e6);
  return text.data();
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + base::ranges(ranks);
}

std::string name_of(const OpView& op) { return op.kind + " '" + op.name + "'"; }

std::string name_and_size(const OpView& op) {
  if (op.bytes == 0) return name_of(op);
  return name_of(op) + " (" + op.dtype + ", " + base::human_bytes(op.bytes) + ")";
}

// "0-3,7" → 0 1 2 3 7
std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> ranks;
  for (auto part : base::split(text, ',')) {
    const auto dash = std::min(part.find('-'), part.size());
    const auto first = base::parse_int(part.substr(0, dash));
    const auto last = dash < part.size() ? base::parse_int(part.substr(dash + 1)) : first;
    for (auto r = first.value_or(0); first && last && r <= *last; ++r) {
      ranks.push_back(static_cast<int>(r));
    }
  }
  return ranks;
}

std::vector<int> members_of(const std::vector<RankPicture>& ranks, std::uint32_t set) {
  for (const auto& rank : ranks) {
    for (const auto& [id, text] : rank.view.sets) {
      if (id == std::to_string(set)) return parse_ranges(text);
    }
  }
  std::vector<int> all(ranks.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

bool has_finished(const RecorderView& view, const Waiting& waiting) {
  return waiting.batch != 0 && std::ranges::any_of(view.ops, [&](const OpView& op) {
           return is(op, OpState::kDone) && op.set == waiting.op.set && op.batch == waiting.batch;
         });
}

// The longest first.
template <class Which>
std::vector<Waiting> find_waiting(const std::vector<RankPicture>& ranks, Which which) {
  std::map<std::pair<std::uint32_t, std::string>, Waiting> by_name;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const OpView& op : ranks[rank].view.ops) {
      if (!which(op)) continue;
      Waiting& waiting = by_name[{op.set, op.name}];
      waiting.batch = std::max(waiting.batch, op.batch);
      auto& with = has_ended(ranks[rank]) ? waiting.gone : waiting.have;
      if (with.empty() || with.back() != static_cast<int>(rank)) {
        with.push_back(static_cast<int>(rank));
      }
      if (&with == &waiting.have && op.submitted_us_ago >= waiting.op.submitted_us_ago) {
        waiting.op = op;
      }
    }
  }
  std::vector<Waiting> all;
  for (auto& [name, waiting] : by_name) {
    if (waiting.have.empty()) continue;
    for (int rank : members_of(ranks, waiting.op.set)) {
      const auto index = static_cast<std::size_t>(rank);
      if (index >= ranks.size() || has_finished(ranks[index].view, waiting)) continue;
      if (std::ranges::binary_search(waiting.have, rank)) continue;
      if (!std::ranges::binary_search(waiting.gone, rank)) waiting.missing.push_back(rank);
    }
    all.push_back(std::move(waiting));
  }
  std::ranges::stable_sort(all, [](const Waiting& a, const Waiting& b) {
    return a.op.submitted_us_ago > b.op.submitted_us_ago;
  });
  return all;
}

std::string state_of(const RankPicture& rank) {
  const RecorderView& view = rank.view;
  if (!rank.known) return "no word from its host";
  if (has_ended(rank)) return "has ended";
  if (view.process_state == 'T' || view.process_state == 't') {
    return "is stopped (by SIGSTOP or a debugger)";
  }
  if (view.presence == static_cast<std::uint8_t>(Presence::kNotYet))
    return "is not in hv::init yet";
  if (view.presence == static_cast<std::uint8_t>(Presence::kLeft)) return "has shut down";
  auto pending = std::ranges::find_if(view.ops, is_pending);
  if (pending != view.ops.end()) return "waits itself for " + name_of(*pending);
  if (view.process_state == 'D') return "is blocked in the kernel (by a disk or a device)";
  return view.process_state == 'R' ? "computes elsewhere" : "sleeps or waits elsewhere";
}

std::string last_of(const RecorderView& view) {
  auto last = std::ranges::max_element(view.ops, {}, &OpView::number);
  if (last == view.ops.end()) return "it has submitted nothing";
  std::string text =
      "last submitted " + name_of(*last) + " " + seconds(last->submitted_us_ago) + " ago";
  if (is_pending(*last)) text += ", not finished";
  return text;
}

std::string line_of(const std::vector<RankPicture>& ranks, int rank) {
  const RankPicture& picture = ranks[static_cast<std::size_t>(rank)];
  std::string who = "\n  rank " + std::to_string(rank) + " on " + picture.host;
  if (picture.view.pid != 0) who += " (pid " + std::to_string(picture.view.pid) + ")";
  return who + " " + state_of(picture) + (picture.known ? "; " + last_of(picture.view) : "");
}

std::string lines_of(const std::vector<RankPicture>& ranks, const std::vector<int>& which,
                     std::size_t at_most = kRanksShown) {
  std::string text;
  for (std::size_t i = 0; i < std::min(which.size(), at_most); ++i) {
    text += line_of(ranks, which[i]);
  }
  if (which.size() > at_most) {
    text += "\n  and " + std::to_string(which.size() - at_most) + " more ranks";
  }
  return text;
}

std::string others(const std::vector<Waiting>& all, const Waiting& first) {
  std::vector<std::string> names;
  for (const auto& waiting : all) {
    if (&waiting != &first) names.push_back("'" + waiting.op.name + "'");
  }
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kNamesShown);
  names.resize(names.size() - more);
  std::string text = "\n  waiting, too: " + base::join(names, ", ");
  if (more > 0) text += " … and " + std::to_string(more) + " more";
  return text;
}

std::string describe_missing(const std::vector<RankPicture>& ranks, const Waiting& first) {
  const auto waited = seconds(first.op.submitted_us_ago);
  std::string text =
      name_and_size(first.op) + " has waited " + waited + ": " + ranks_text(first.have) +
      (first.have.size() == 1 ? " has" : " have") + " submitted it, " + ranks_text(first.missing) +
      (first.missing.size() == 1 ? " has" : " have") + " not" + lines_of(ranks, first.missing);
  return text;
}

// One rank that does what no other does, of more than two.
std::string hint(const std::vector<Waiting>& all) {
  for (const auto& waiting : all) {
    if (waiting.have.size() != 1 || waiting.missing.size() < 2) continue;
    return "\n  only " + ranks_text(waiting.have) + " has submitted " + name_of(waiting.op) +
           ": is it in code that only this rank runs, such as the saving of a checkpoint?";
  }
  return "";
}

std::string describe_running(const std::vector<RankPicture>& ranks, const Waiting& first) {
  std::vector<int> suspects;
  for (int rank : members_of(ranks, first.op.set)) {
    if (static_cast<std::size_t>(rank) >= ranks.size()) continue;
    const auto& picture = ranks[static_cast<std::size_t>(rank)];
    const auto state = picture.view.process_state;
    if (!picture.known || state == 0 ||
        std::string_view("ZXTtD").find(static_cast<char>(state)) != std::string_view::npos) {
      suspects.push_back(rank);
    }
  }
  std::string text = name_and_size(first.op) + " has run for " +
                     seconds(first.op.submitted_us_ago) + " on " + ranks_text(first.have) +
                     " and has not ended";
  if (!suspects.empty()) return text + lines_of(ranks, suspects);
  return text + "; all of these processes run";
}

}  // namespace

std::string describe_wait(const std::vector<RankPicture>& ranks) {
  auto waiting = find_waiting(ranks, is_pending);
  if (waiting.empty()) {
    waiting = find_waiting(ranks, has_just_failed);
    std::erase_if(waiting, [](const Waiting& one) { return one.missing.empty(); });
  }
  if (waiting.empty()) return "";
  auto first = std::ranges::find_if(waiting, [](const auto& one) { return !one.missing.empty(); });
  if (first == waiting.end()) {
    return describe_running(ranks, waiting.front()) + others(waiting, waiting.front());
  }
  return describe_missing(ranks, *first) + others(waiting, *first) + hint(waiting);
}

std::string describe_ranks(const std::vector<RankPicture>& ranks) {
  auto [least, most] =
      std::ranges::minmax(ranks, {}, [](const RankPicture& rank) { return rank.view.finished; });
  std::string text = std::to_string(ranks.size()) +
                     " ranks, operations finished: " + std::to_string(least.view.finished);
  if (most.view.finished > least.view.finished) {
    text += " to " + std::to_string(most.view.finished);
  }
  const std::string wait = describe_wait(ranks);
  if (!wait.empty()) text += "\n" + wait;
  std::vector<int> all(ranks.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return text + lines_of(ranks, all, kAllShown);
}

}  // namespace hv::launcher
