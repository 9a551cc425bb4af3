#include "launcher/diagnose/ib_advice.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using rendezvous::KeyValue;

namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

const std::string* set_by_user(const IbWish& wish, const char* name) {
  auto at = std::ranges::find(wish.user, name, &KeyValue::key);
  return at == wish.user.end() ? nullptr : &at->value;
}

std::string gbit_text(double gbit) {
  char text[32];
  std::snprintf(text, sizeof text, "%g Gbit/s", gbit);
  return text;
}

// A port that is left, and ports that are not, with why.
struct Selection {
  std::vector<const IbPort*> ports;
  std::vector<std::string> notes;

  template <class WhyNot>
  void keep(WhyNot why_not) {
    std::erase_if(ports, [&](const IbPort* port) {
      std::string why = why_not(*port);
      if (!why.empty()) notes.push_back(port->name() + " is left out: " + why);
      return !why.empty();
    });
  }
};

Selection usable_ports(const std::vector<IbDevice>& devices, const IbWish& wish) {
  Selection chosen;
  for (const auto& device : devices) {
    for (const auto& port : device.ports) chosen.ports.push_back(&port);
  }
  chosen.keep([](const IbPort& port) { return port.unusable; });
  chosen.keep([&](const IbPort& port) -> std::string {
    bool asked = port.layer != LinkLayer::kEthernet || wish.netdevs.empty() ||
                 contains(wish.netdevs, port.netdev);
    return asked ? "" : "its interface " + port.netdev + " is none of those asked for";
  });
  chosen.keep([&](const IbPort& port) {
    bool common = wish.only.empty() || contains(wish.only, port.name());
    return common ? std::string() : "not every host has one like it";
  });
  return chosen;
}

// One kind of link (NCCL cannot join two), the one with the most bandwidth; of it the fastest
// ports.
void keep_fastest(Selection& chosen) {
  std::map<LinkLayer, double> total;
  for (const auto* port : chosen.ports) total[port->layer] += port->gbit;
  if (total.empty()) return;
  auto best =
      std::ranges::max_element(total, {}, [](const auto& kind) { return kind.second; })->first;
  chosen.keep([&](const IbPort& port) {
    return port.layer == best ? std::string()
                              : std::string(to_string(port.layer)) + "; most bandwidth is on " +
                                    std::string(to_string(best));
  });
  double fastest = 0;
  for (const auto* port : chosen.ports) fastest = std::max(fastest, port->gbit);
  chosen.keep([&](const IbPort& port) {
    return port.gbit < fastest ? gbit_text(port.gbit) + ", others have " + gbit_text(fastest) : "";
  });
}

std::string why_no_gid(const IbPort& port, int index) {
  auto gid = std::ranges::find(port.gids, index, &Gid::index);
  if (gid == port.gids.end()) return "is empty";
  if (gid->type != GidType::kRoceV2) return "is " + std::string(to_string(gid->type));
  if (gid->scope == GidScope::kLinkLocal) return "is link-local";
  return {};
}

// Indices that are version 2, routable and of this family on the port.
std::vector<int> indices(const IbPort& port, GidScope scope) {
  std::vector<int> found;
  for (const auto& gid : port.gids) {
    if (gid.type == GidType::kRoceV2 && gid.scope == scope) found.push_back(gid.index);
  }
  return found;
}

// The index that most of the ports can use, the lowest of equals; -1: none can.
int best_index(const std::vector<const IbPort*>& ports, GidScope scope) {
  std::map<int, int> votes;
  for (const auto* port : ports) {
    for (int index : indices(*port, scope)) ++votes[index];
  }
  auto best = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  return best == votes.end() ? -1 : best->first;
}

// The GID index for all of the ports; ports that lack it are left out.
int choose_gid(Selection& chosen, const IbWish& wish) {
  bool ipv6 = wish.ipv6.value_or(false);
  auto scope = ipv6 ? GidScope::kIpv6 : GidScope::kIpv4;
  auto other = ipv6 ? GidScope::kIpv4 : GidScope::kIpv6;
  int index = best_index(chosen.ports, scope);
  if (index < 0) {
    scope = other;
    index = best_index(chosen.ports, scope);
    if (index >= 0) {
      chosen.notes.push_back(std::string("no RoCE v2 GID is ") + (ipv6 ? "IPv6" : "IPv4") +
                             "; index " + std::to_string(index) + " is " +
                             (ipv6 ? "IPv4" : "IPv6"));
    }
  }
  chosen.keep([&](const IbPort& port) -> std::string {
    auto have = indices(port, scope);
    if (index < 0) return "it has no routable RoCE v2 GID; give " + port.netdev + " an address";
    if (std::ranges::find(have, index) != have.end()) return {};
    return "GID index " + std::to_string(index) + ", which the others use, " +
           (why_no_gid(port, index).empty() ? "is of another family" : why_no_gid(port, index)) +
           " on it";
  });
  return chosen.ports.empty() ? -1 : index;
}

// NCCL_IB_HCA: "mlx5_0:1,mlx5" are prefixes, "=mlx5_0" exact, "^mlx5_3" the others.
struct HcaList {
  bool exclude = false, exact = false;
  std::vector<std::string> words;
};
HcaList parse_hca(std::string_view text) {
  HcaList list;
  if (text.starts_with('^')) list.exclude = true, text.remove_prefix(1);
  if (text.starts_with('=')) list.exact = true, text.remove_prefix(1);
  for (auto word : base::split(text, ',')) {
    if (!word.empty()) list.words.emplace_back(word);
  }
  return list;
}
bool selects(const HcaList& list, const IbPort& port) {
  bool named = std::ranges::any_of(list.words, [&](const std::string& word) {
    auto colon = word.find(':');
    auto device = word.substr(0, colon);
    if (colon != word.npos && word.substr(colon + 1) != std::to_string(port.number)) return false;
    return list.exact ? port.device == device : port.device.starts_with(device);
  });
  return named != list.exclude;
}

// What the user's own settings would do with these cards.
std::vector<std::string> conflicts(const std::vector<IbDevice>& devices, const IbAdvice& advice,
                                   const IbWish& wish) {
  std::vector<std::string> notes;
  const auto* hca = set_by_user(wish, "NCCL_IB_HCA");
  const auto* index = set_by_user(wish, "NCCL_IB_GID_INDEX");
  auto list = parse_hca(hca != nullptr ? *hca : "^");
  int selected = 0;
  for (const auto& device : devices) {
    for (const auto& port : device.ports) {
      if (!selects(list, port)) continue;
      ++selected;
      if (hca != nullptr && !list.exclude && !port.unusable.empty()) {
        notes.push_back("NCCL_IB_HCA=" + *hca + " (kept) names " + port.name() +
                        ", which is unusable: " + port.unusable);
      }
      auto number = index != nullptr ? base::parse_int(*index) : std::nullopt;
      if (!number || port.layer != LinkLayer::kEthernet || !port.unusable.empty()) continue;
      auto why = why_no_gid(port, static_cast<int>(*number));
      if (!why.empty()) {
        notes.push_back("NCCL_IB_GID_INDEX=" + *index + " (kept) " + why + " on " + port.name() +
                        (advice.gid_index >= 0
                             ? "; index " + std::to_string(advice.gid_index) + " would do"
                             : ""));
      }
    }
  }
  if (hca != nullptr && selected == 0) {
    notes.push_back("NCCL_IB_HCA=" + *hca + " (kept) names no card of this host");
  }
  return notes;
}

}  // namespace

IbAdvice advise(const std::vector<IbDevice>& devices, const IbWish& wish) {
  auto chosen = usable_ports(devices, wish);
  keep_fastest(chosen);
  IbAdvice advice;
  bool roce = !chosen.ports.empty() && chosen.ports[0]->layer == LinkLayer::kEthernet;
  if (roce) advice.gid_index = choose_gid(chosen, wish);
  for (const auto* port : chosen.ports) advice.ports.push_back(port->name());
  advice.notes = std::move(chosen.notes);

  advice.conflicts = conflicts(devices, advice, wish);
  const auto* disabled = set_by_user(wish, "NCCL_IB_DISABLE");
  if (disabled != nullptr && *disabled == "1") {
    if (!advice.ports.empty()) {
      advice.conflicts.push_back("NCCL_IB_DISABLE=1 (kept) leaves usable cards idle: " +
                                 base::join(advice.ports, ", "));
    }
    return advice;
  }
  if (advice.ports.empty()) return advice;
  auto set = [&](const char* name, const std::string& value) {
    if (set_by_user(wish, name) == nullptr) advice.set.push_back({name, value});
  };
  set("NCCL_IB_HCA", "=" + base::join(advice.ports, ","));
  if (advice.gid_index >= 0) set("NCCL_IB_GID_INDEX", std::to_string(advice.gid_index));
  return advice;
}

namespace {

// "h1: 2 ports, 200 Gbit/s InfiniBand": what is compared.
std::string kind_of(const HostCards& host, const IbAdvice& advice) {
  if (advice.ports.empty()) return "no usable port";
  std::string text =
      std::to_string(advice.ports.size()) + (advice.ports.size() == 1 ? " port" : " ports");
  for (const auto& device : host.devices) {
    for (const auto& port : device.ports) {
      if (port.name() == advice.ports[0]) {
        return text + ", " + gbit_text(port.gbit) + " " + std::string(to_string(port.layer));
      }
    }
  }
  return text;
}

// One line for each answer that differs: "2 ports, … on h1,h2". Empty when all are the same.
std::string differing(const std::vector<HostCards>& hosts,
                      const std::vector<std::string>& answers) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto group = std::ranges::find(groups, answers[i], [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(group, {answers[i], {}});
    group->second.push_back(hosts[i].host);
  }
  if (groups.size() < 2) return {};
  std::string text;
  for (const auto& [answer, names] : groups) {
    text += "\n  " + answer + "  on " + base::join(names, ",");
  }
  return text;
}

// Ports for each host so that all have equally many: by name where enough names are on every host,
// else the first ones.
std::vector<std::vector<std::string>> common_subset(const std::vector<IbAdvice>& advice) {
  auto fewest =
      std::ranges::min(advice, {}, [](const auto& a) { return a.ports.size(); }).ports.size();
  std::vector<std::string> everywhere;
  for (const auto& port : advice.front().ports) {
    if (std::ranges::all_of(advice, [&](const auto& a) { return contains(a.ports, port); })) {
      everywhere.push_back(port);
    }
  }
  std::vector<std::vector<std::string>> subset;
  for (const auto& one : advice) {
    auto& ports = everywhere.size() >= fewest ? everywhere : one.ports;
    subset.emplace_back(ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(fewest));
  }
  return subset;
}

}  // namespace

IbComparison compare_cards(std::vector<HostCards> hosts) {
  IbComparison comparison;
  std::vector<std::string> kinds, indices;
  for (const auto& host : hosts) {
    comparison.advice.push_back(advise(host.devices, host.wish));
    kinds.push_back(kind_of(host, comparison.advice.back()));
    indices.push_back("GID index " + std::to_string(comparison.advice.back().gid_index));
  }
  if (hosts.size() < 2) return comparison;
  if (auto text = differing(hosts, indices); !text.empty()) {
    bool roce_everywhere =
        std::ranges::all_of(comparison.advice, [](const auto& a) { return a.gid_index >= 0; });
    if (roce_everywhere) {
      comparison.warnings.push_back("hosts have different GID tables; each gets its own index" +
                                    text);
    }
  }
  auto text = differing(hosts, kinds);
  if (text.empty()) return comparison;
  comparison.warnings.push_back("hosts have unequal cards" + text);
  auto subset = common_subset(comparison.advice);
  if (subset.front().empty()) {
    comparison.warnings.push_back(
        "not every host has a usable card: NCCL would wait for ever; set "
        "NCCL_IB_DISABLE=1, or leave those hosts out");
    for (auto& advice : comparison.advice) advice.set.clear();
    return comparison;
  }
  comparison.warnings.push_back("proposed is what all have in common: " +
                                std::to_string(subset.front().size()) + " of each host");
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].wish.only = subset[i];
    comparison.advice[i] = advise(hosts[i].devices, hosts[i].wish);
  }
  return comparison;
}

}  // namespace hv::launcher::diagnose
