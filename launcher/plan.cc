#include "launcher/plan.h"

#include <algorithm>
#include <utility>

#include "launcher/hosts.h"
#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace {

int slots_of(const HostSpec& host) { return std::max(host.slots, 1); }

std::string padded(std::string text, std::size_t width, bool right = false) {
  if (text.size() < width) text.insert(right ? 0 : text.size(), width - text.size(), ' ');
  return text;
}

std::string slot_table(const std::vector<HostSpec>& hosts) {
  std::size_t width = 4;
  for (const auto& host : hosts) width = std::max(width, host.name.size());
  std::string table = "  " + padded("host", width) + "  slots  from\n";
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(hosts.size(), kShown); ++i) {
    const auto& host = hosts[i];
    table += "  " + padded(host.name, width) + "  " +
             padded(std::to_string(slots_of(host)), 5, true) + "  " + host.source +
             (host.slots == 0 ? " (no count given)" : "") + "\n";
  }
  if (hosts.size() > kShown) {
    table += "  … and " + std::to_string(hosts.size() - kShown) + " hosts more\n";
  }
  return table;
}

// The same hosts with enough slots for `np`, as they would be typed: hosts without a count grow
// first, one slot at a time.
std::string enough_slots(std::vector<HostSpec> hosts, int missing) {
  std::vector<HostSpec*> growing;
  for (auto& host : hosts) {
    if (host.slots == 0) growing.push_back(&host);
  }
  if (growing.empty()) growing.push_back(&hosts.back());
  for (auto* host : growing) host->slots = slots_of(*host);
  for (int i = 0; i < missing; ++i) ++growing[static_cast<std::size_t>(i) % growing.size()]->slots;
  std::vector<std::string> words;
  for (const auto& host : hosts) words.push_back(spell(host));
  return base::join(words, ",");
}

base::Error too_few_slots(const std::vector<HostSpec>& hosts, int np, int slots) {
  std::string text = "not enough slots: " + std::to_string(np) + " ranks were asked for, but the " +
                     "hosts have " + std::to_string(slots) + "\n" + slot_table(hosts);
  if (hosts.size() <= 8) {
    text += "  Give more slots: -H " + enough_slots(hosts, np - slots) + ", or ";
  } else {
    text += "  Give the hosts more slots, or ";
  }
  text += "start fewer ranks: -np " + std::to_string(slots);
  return {base::Code::kUsage, text + ", or share the slots: --oversubscribe", {}, 0};
}

// As many ranks as asked for: every slot as often, then one more each from the first on.
std::vector<HostSpec> oversubscribed(std::vector<HostSpec> hosts, int np, int slots) {
  int left = np;
  for (auto& host : hosts) {
    host.slots = static_cast<int>(static_cast<std::int64_t>(slots_of(host)) * np / slots);
    left -= host.slots;
  }
  for (auto& host : hosts) host.slots += left-- > 0 ? 1 : 0;
  return hosts;
}

}  // namespace

base::Result<Plan> make_plan(const std::vector<HostSpec>& given, int np, std::uint32_t epoch,
                             bool oversubscribe) {
  auto hosts = given;
  int slots = 0;
  for (const auto& host : hosts) slots += slots_of(host);
  if (np > slots && !oversubscribe) return tl::unexpected(too_few_slots(hosts, np, slots));
  if (np > slots) hosts = oversubscribed(std::move(hosts), np, std::exchange(slots, np));

  Plan plan;
  plan.epoch = epoch;
  plan.size = np > 0 ? np : slots;
  int next = 0;
  for (const auto& host : hosts) {
    int count = std::min(slots_of(host), plan.size - next);
    if (count == 0) break;
    HostPlan on_host;
    on_host.index = static_cast<std::uint32_t>(plan.hosts.size());
    on_host.host = host;
    for (int local = 0; local < count; ++local) {
      // How many hosts before this one have this local rank, too.
      auto cross = std::ranges::count_if(plan.hosts, [&](const HostPlan& before) {
        return static_cast<int>(before.ranks.size()) > local;
      });
      on_host.ranks.push_back({next++, local, count, static_cast<int>(cross), 1});
    }
    plan.hosts.push_back(std::move(on_host));
  }
  for (auto& host : plan.hosts) {
    for (auto& rank : host.ranks) {
      rank.cross_size = static_cast<int>(std::ranges::count_if(plan.hosts, [&](const HostPlan& h) {
        return static_cast<int>(h.ranks.size()) > rank.local_rank;
      }));
    }
  }
  return plan;
}

}  // namespace hv::launcher
