#include "launcher/diagnose/nic.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

using rendezvous::Interface;
using rendezvous::KeyValue;

namespace {

// Lower is better. A cable first; what leads to containers and machines inside of the host last.
int rank_of_kind(const Interface& one) {
  constexpr std::array<std::string_view, 8> kInside = {"docker", "br-",   "virbr",  "veth",
                                                       "cni",    "lxcbr", "podman", "flannel"};
  bool inside = std::ranges::any_of(kInside, [&](auto name) { return one.name.starts_with(name); });
  if (inside || one.kind == "bridge" || one.kind == "tunnel") return 2;
  return one.kind == "veth" || one.kind == "virtual" ? 1 : 0;
}

bool in_network_of(const std::string& address, const Interface& other) {
  auto a = parse_address(address), b = parse_address(other.address);
  return a && b && other.prefix > 0 && same_network(*a, *b, other.prefix);
}

class Chooser {
 public:
  Chooser(const std::vector<NicHost>& hosts, const std::vector<Contact>& contacts,
          const NicFilter& filter)
      : hosts_(hosts), contacts_(contacts), filter_(filter) {}

  NicPlan choose() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) plan_.hosts.push_back(choose_for(i));
    for (const auto& contact : contacts_) warn_of_nat(contact);
    return std::move(plan_);
  }

 private:
  // An address that is left, and what speaks for it.
  struct Candidate {
    const Interface* one = nullptr;
    bool proven = false;     // another host has reached it, or it has reached another host
    std::size_t shared = 0;  // hosts that have an address in its network

    // Lower is better.
    auto key() const {
      return std::tuple(!proven, rank_of_kind(*one), -static_cast<long>(shared),
                        is_ipv6(one->address), -static_cast<long>(one->speed_mbit));
    }
  };

  bool is_other(std::size_t a, std::size_t b) const {
    return a != b && (hosts_[a].identity.empty() || hosts_[a].identity != hosts_[b].identity);
  }

  bool is_proven(std::size_t host, const std::string& address) const {
    return std::ranges::any_of(contacts_, [&](const Contact& contact) {
      return (contact.to == host && contact.to_address == address) ||
             (contact.from == host && contact.from_address == address &&
              contact.seen_as == address);
    });
  }

  std::size_t count_sharing(std::size_t host, const Interface& one) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      count += is_other(i, host) &&
               std::ranges::any_of(hosts_[i].interfaces, [&](const Interface& other) {
                 return other.up && !other.loopback && other.address != one.address &&
                        in_network_of(other.address, one);
               });
    }
    return count;
  }

  // A host that has the same address: it names no one in particular.
  const NicHost* host_with_same(std::size_t host, const std::string& address) const {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      bool has = std::ranges::any_of(
          hosts_[i].interfaces, [&](const Interface& other) { return other.address == address; });
      if (has && is_other(i, host)) return &hosts_[i];
    }
    return nullptr;
  }

  std::string why_never(std::size_t host, const Interface& one, bool selected) const {
    if (one.loopback) return "loopback";
    if (!one.up) return "down";
    if (!selected) return "not asked for by --nic " + filter_.text;
    if (is_link_local(one.address)) return {};
    if (const auto* other = host_with_same(host, one.address)) {
      return other->name + " has the same address";
    }
    return {};
  }

  NicChoice choose_for(std::size_t host) {
    const auto& interfaces = hosts_[host].interfaces;
    auto selected = select(filter_, interfaces);
    std::vector<Candidate> candidates, link_local;
    for (std::size_t i = 0; i < interfaces.size(); ++i) {
      const auto& one = interfaces[i];
      if (auto why = why_never(host, one, selected[i]); !why.empty()) {
        note(host, one, why);
        continue;
      }
      auto& list = is_link_local(one.address) ? link_local : candidates;
      list.push_back({&one, is_proven(host, one.address), count_sharing(host, one)});
    }
    if (candidates.empty()) {
      candidates = std::move(link_local);
    } else {
      for (const auto& candidate : link_local) note(host, *candidate.one, "link-local");
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::key);
    drop_insides(host, candidates);
    return make_choice(host, candidates);
  }

  // Networks inside of a host, where there is a way out of it.
  void drop_insides(std::size_t host, std::vector<Candidate>& candidates) {
    if (candidates.empty() || !filter_.empty()) return;
    std::vector<Candidate> kept = {candidates.front()};
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const auto& candidate = candidates[i];
      if (!candidate.proven && candidate.shared == 0 && rank_of_kind(*candidate.one) == 2) {
        note(host, *candidate.one,
             (candidate.one->kind.empty() ? "inside" : candidate.one->kind) +
                 ", and no other host is in its network");
      } else {
        kept.push_back(candidate);
      }
    }
    candidates = std::move(kept);
  }

  NicChoice make_choice(std::size_t host, const std::vector<Candidate>& candidates) {
    NicChoice choice;
    const auto& advertise = hosts_[host].advertise;
    if (!advertise.empty()) choice.addresses.push_back(advertise);
    for (const auto& candidate : candidates) {
      const auto& one = *candidate.one;
      if (one.address == advertise) continue;
      note(host, one, choice.addresses.empty() ? "used first" : "used if that fails");
      choice.addresses.push_back(one.address);
    }
    for (const auto& candidate : candidates) {
      bool listed = std::ranges::find(choice.names, candidate.one->name) != choice.names.end();
      // Without --nic the libraries get the one best interface.
      if (!listed && (choice.names.empty() || !filter_.empty())) {
        choice.names.push_back(candidate.one->name);
      }
    }
    if (choice.addresses.empty()) {
      bool alone = true;
      for (std::size_t i = 0; i < hosts_.size(); ++i) alone = alone && !is_other(i, host);
      choice.addresses.emplace_back("127.0.0.1");
      if (!alone) {
        plan_.warnings.push_back(hosts_[host].name +
                                 " has no address that other hosts could use; its interfaces: "
                                 "hvrun --verbose");
      }
    }
    if (!choice.names.empty()) tell_libraries(host, choice);
    return choice;
  }

  void tell_libraries(std::size_t host, NicChoice& choice) {
    auto all = base::join(choice.names, ",");
    // NCCL takes prefixes unless told otherwise; the others take names.
    for (const auto& [variable, text] : {KeyValue{"NCCL_SOCKET_IFNAME", "=" + all},
                                         KeyValue{"GLOO_SOCKET_IFNAME", choice.names.front()},
                                         KeyValue{"TP_SOCKET_IFNAME", choice.names.front()}}) {
      auto set = std::ranges::find(hosts_[host].set, variable, &KeyValue::key);
      if (set == hosts_[host].set.end()) {
        choice.set.push_back({variable, text});
      } else if (!allows(set->value, choice.names)) {
        auto& told = filter_.empty() ? plan_.notes : plan_.warnings;
        told.push_back(hosts_[host].name + ": " + variable + "=" + set->value +
                       " is kept, but hvrun uses " + all + " there" +
                       (filter_.empty() ? "" : " (--nic " + filter_.text + ")"));
      }
    }
  }

  // NCCL's syntax is ours without networks.
  static bool allows(const std::string& setting, const std::vector<std::string>& names) {
    auto filter = parse_nic_filter(setting);
    if (!filter) return true;
    std::vector<Interface> interfaces;
    for (const auto& name : names) interfaces.push_back({name, {}, false, true});
    auto selected = select(*filter, interfaces);
    return std::ranges::find(selected, true) != selected.end();
  }

  void warn_of_nat(const Contact& contact) {
    if (contact.from == kNotInPlan || contact.seen_as.empty() || contact.from_address.empty() ||
        contact.seen_as == contact.from_address) {
      return;
    }
    plan_.warnings.push_back(
        hosts_[contact.from].name + " is behind NAT: it calls itself " + contact.from_address +
        ", but its connection comes from " + contact.seen_as +
        ". Others may be unable to connect to it; if so, give it a network of its own (for "
        "containers: --network=host), or publish ports: --port-range and --advertise-addr");
  }

  void note(std::size_t host, const Interface& one, const std::string& what) {
    plan_.notes.push_back(hosts_[host].name + ": " + one.name + " " + one.address + " " + what);
  }

  const std::vector<NicHost>& hosts_;
  const std::vector<Contact>& contacts_;
  const NicFilter& filter_;
  NicPlan plan_;
};

}  // namespace

NicPlan choose_nics(const std::vector<NicHost>& hosts, const std::vector<Contact>& contacts,
                    const NicFilter& filter) {
  return Chooser(hosts, contacts, filter).choose();
}

}  // namespace hv::launcher::diagnose
