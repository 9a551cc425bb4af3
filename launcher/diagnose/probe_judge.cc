#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "launcher/diagnose/ib_advice.h"
#include "launcher/diagnose/probe_baseline.h"
#include "launcher/diagnose/probe_report.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

// Of what the middle one of the hosts shows, or the link has.
constexpr double kCoresBelow = 0.5, kMemoryBelow = 0.6, kLinkBelow = 0.5, kIbBelow = 0.6;
// A round trip is odd if it takes several times that of the others and is also long in itself.
constexpr double kLatencyTimes = 4, kLatencyAboveUs = 500;
constexpr double kClockWarnMs = 100;
constexpr std::int64_t kFewFiles = 1024;
// Faster links are not filled by one process with a few connections.
constexpr std::uint32_t kFilledMbit = 25000;

std::string printed(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string speed_text(double mbit) {
  return mbit >= 1000 ? printed("%.1f Gbit/s", mbit / 1000) : printed("%.0f Mbit/s", mbit);
}
std::string time_text(double us) {
  return us >= 1000 ? printed("%.1f ms", us / 1000) : printed("%.0f us", us);
}

// Each host against what is usual, figure by figure.
class Judge {
 public:
  Judge(const ProbeFacts& facts, const ProbeWish& wish)
      : facts_(facts), wish_(wish), usual_(find_baseline(facts)) {}

  ProbeReport report() {
    ProbeReport report;
    for (std::size_t i = 0; i < facts_.hosts.size(); ++i) report.hosts.push_back(judge(i));
    for (const auto& host : report.hosts) report.verdict = std::max(report.verdict, host.verdict);
    name_outliers(report);
    return report;
  }

 private:
  const ProbedHost& host(std::size_t i) const { return facts_.hosts[i]; }

  // ---- one host ---------------------------------------------------------------------------

  HostVerdict judge(std::size_t i) {
    HostVerdict verdict{i, host(i).name, Verdict::kPass, {}};
    auto& figures = verdict.figures;
    if (!host(i).failure.empty()) {
      figures.push_back({"agent", "none", {}, "running", Verdict::kFail, host(i).failure});
    } else {
      figures.push_back(reach(i));
      if (auto changed = nat(i)) figures.push_back(*changed);
      figures.push_back(
          bandwidth(i, "bandwidth out", usual_.best[i].out_mbit, usual_.way.out_mbit));
      figures.push_back(bandwidth(i, "bandwidth in", usual_.best[i].in_mbit, usual_.way.in_mbit));
      figures.push_back(latency(i));
      figures.push_back(cores(i));
      figures.push_back(memory(i));
      figures.push_back(clock(i));
      figures.push_back(open_files(i));
      figures.push_back(gpus(i));
      figures.push_back(cards(i));
      if (auto locked = locked_memory(i)) figures.push_back(*locked);
      figures.push_back(ib_bandwidth(i));
    }
    for (const auto& figure : figures) verdict.verdict = std::max(verdict.verdict, figure.verdict);
    return verdict;
  }

  bool failed(std::size_t from, std::size_t to) const {
    const auto& reached = facts_.reached[from][to];
    return reached && !reached->failure.empty();
  }

  // Whoever fails with most of the others is to blame; where nobody does, both ends are.
  std::size_t failures_of(std::size_t i) const {
    std::size_t count = 0;
    for (std::size_t j = 0; j < facts_.hosts.size(); ++j) {
      count += j != i && (failed(i, j) || failed(j, i));
    }
    return count;
  }

  Figure reach(std::size_t i) const {
    std::size_t tried = 0, missing = 0;
    std::string first;
    for (std::size_t j = 0; j < facts_.hosts.size(); ++j) {
      if (j == i || !(facts_.reached[i][j] || facts_.reached[j][i])) continue;
      ++tried;
      if ((!failed(i, j) && !failed(j, i)) || failures_of(i) < failures_of(j)) continue;
      ++missing;
      if (!first.empty()) continue;
      first = failed(i, j)
                  ? host(i).name + " → " + host(j).name + ": " + facts_.reached[i][j]->failure
                  : host(j).name + " → " + host(i).name + ": " + facts_.reached[j][i]->failure;
    }
    Figure figure{"reach",
                  std::to_string(tried - missing) + " of " + std::to_string(tried) + " hosts",
                  static_cast<double>(tried - missing),
                  "all of them, both ways",
                  Verdict::kPass,
                  {}};
    if (missing == 0) return figure;
    figure.verdict = Verdict::kFail;
    figure.remedy =
        first + "; let TCP through between the hosts, both ways (--port-range bounds the ports)";
    return figure;
  }

  // Somebody on the way changes its address.
  std::optional<Figure> nat(std::size_t i) const {
    auto plain = [](const std::string& address) { return address.substr(0, address.find('%')); };
    for (const auto& reached : facts_.reached[i]) {
      if (!reached || plain(reached->seen_as) == plain(reached->local_address)) continue;
      return Figure{"NAT",
                    reached->local_address + " is seen as " + reached->seen_as,
                    {},
                    "one address everywhere",
                    Verdict::kWarn,
                    "others may be unable to connect to it: a network of its own (for containers "
                    "--network=host), or --port-range and --advertise-addr"};
    }
    return std::nullopt;
  }

  const rendezvous::Interface* nic(std::size_t i) const {
    const auto& all = host(i).hello.interfaces;
    auto found = std::ranges::find(all, host(i).address, &rendezvous::Interface::address);
    return found == all.end() ? nullptr : &*found;
  }

  std::string nic_name(std::size_t i) const {
    const auto* one = nic(i);
    return one != nullptr ? one->name : "the interface";
  }

  // What the link should carry, where that is known: a virtual one tells anything.
  double link_mbit(std::size_t i) const {
    const auto* one = nic(i);
    bool told = one != nullptr && (one->kind == "physical" || one->kind == "bond");
    return told && one->speed_mbit <= kFilledMbit ? one->speed_mbit : 0;
  }

  Figure bandwidth(std::size_t i, const char* name, std::optional<double> best,
                   std::optional<double> common) const {
    Figure figure{name, "not measured", best, {}, Verdict::kPass, {}};
    if (!best) {
      auto broken = std::ranges::find_if(facts_.pairs, [&](const ProbedPair& pair) {
        return (pair.from == i || pair.to == i) && !pair.failure.empty();
      });
      if (broken == facts_.pairs.end()) return figure;
      return {name, "failed", {}, {}, Verdict::kFail, broken->failure};
    }
    figure.value = speed_text(*best);
    if (common) figure.expected = speed_text(*common) + ", as the others";
    std::string look = "look at cable, port, duplex and limits of " + nic_name(i) + " on " +
                       host(i).name + ": ethtool " + nic_name(i) + "; tc qdisc show dev " +
                       nic_name(i);
    auto mark = [&](Verdict verdict) {
      figure.verdict = verdict;
      figure.remedy = look;
    };
    if (common && *best < *common * wish_.warn_below) {
      mark(*best < *common * wish_.fail_below ? Verdict::kFail : Verdict::kWarn);
    } else if (*best < link_mbit(i) * kLinkBelow) {
      figure.expected = speed_text(link_mbit(i)) + ", which the link has";
      mark(Verdict::kWarn);
    }
    if (*best < wish_.min_mbit) {
      figure.expected = "at least " + speed_text(wish_.min_mbit) + " (--min-bandwidth)";
      mark(Verdict::kFail);
    }
    return figure;
  }

  Figure latency(std::size_t i) const {
    auto best = usual_.best[i].latency_us;
    Figure figure{"latency", "not measured", best, {}, Verdict::kPass, {}};
    if (!best) return figure;
    figure.value = time_text(*best);
    if (!usual_.way.latency_us) return figure;
    figure.expected = time_text(*usual_.way.latency_us) + ", as the others";
    if (*best > *usual_.way.latency_us * kLatencyTimes &&
        *best > *usual_.way.latency_us + kLatencyAboveUs) {
      figure.verdict = Verdict::kFail;
      figure.remedy = "another way through the network, or a busy host: ip route get <a peer>; top";
    }
    return figure;
  }

  Figure cores(std::size_t i) const {
    double count = host(i).probed.cores;
    Figure figure{"cores", printed("%.3g", count), count, {}, Verdict::kPass, {}};
    if (usual_.cores && count < *usual_.cores * kCoresBelow) {
      figure.expected = printed("%.3g", *usual_.cores) + ", as the others";
      figure.verdict = Verdict::kWarn;
      figure.remedy =
          "a quota of the cgroup or an affinity mask: cat /proc/self/cgroup; taskset -p $$";
    }
    return figure;
  }

  Figure memory(std::size_t i) const {
    double speed = host(i).probed.memory_gbyte_s;
    Figure figure{"memory bandwidth", "not measured", {}, {}, Verdict::kPass, {}};
    if (speed <= 0) return figure;
    figure.value = printed("%.1f GB/s", speed);
    figure.number = speed;
    if (usual_.memory_gbyte_s && usual_.own_machines &&
        speed < *usual_.memory_gbyte_s * kMemoryBelow) {
      figure.expected = printed("%.1f GB/s", *usual_.memory_gbyte_s) + ", as the others";
      figure.verdict = Verdict::kWarn;
      figure.remedy =
          "a missing memory module, or something else is running: dmidecode -t memory; top";
    }
    return figure;
  }

  Figure clock(std::size_t i) const {
    const auto& ms = host(i).clock_ms;
    Figure figure{"clock offset", "not measured", ms, {}, Verdict::kPass, {}};
    if (!ms) return figure;
    figure.value = printed("%+.1f ms", *ms) + printed(" (± %.1f)", host(i).clock_error_ms);
    if (std::abs(*ms) - host(i).clock_error_ms > kClockWarnMs) {
      figure.expected = printed("within %.0f ms", kClockWarnMs);
      figure.verdict = Verdict::kWarn;
      figure.remedy = "its clock is not kept by NTP: chronyc tracking, timedatectl";
    }
    return figure;
  }

  Figure open_files(std::size_t i) const {
    auto limit = host(i).probed.open_files;
    Figure figure{
        "open files", limit < 0 ? "no limit" : std::to_string(limit), {}, {}, Verdict::kPass, {}};
    if (limit >= 0) figure.number = static_cast<double>(limit);
    if (limit >= 0 && limit < kFewFiles) {
      figure.expected = "at least " + std::to_string(kFewFiles);
      figure.verdict = Verdict::kWarn;
      figure.remedy = "ulimit -n 65536, or LimitNOFILE of the service";
    }
    return figure;
  }

  Figure gpus(std::size_t i) const {
    auto count = host(i).probed.gpus.size();
    Figure figure{"GPUs", std::to_string(count), static_cast<double>(count),
                  {},     Verdict::kPass,        {}};
    if (usual_.gpus && count < *usual_.gpus) {
      figure.expected = std::to_string(*usual_.gpus) + ", as most hosts";
      figure.verdict = Verdict::kWarn;
      figure.remedy =
          "one has fallen off its bus, or is not given to this container: nvidia-smi; dmesg";
    }
    return figure;
  }

  IbAdvice advice(std::size_t i) const { return advise(host(i).hello.cards, {}); }

  Figure cards(std::size_t i) const {
    auto usable = advice(i).ports;
    Figure figure{"InfiniBand and RoCE",
                  usable.empty() ? "none" : base::join(usable, ","),
                  static_cast<double>(usable.size()),
                  {},
                  Verdict::kPass,
                  {}};
    if (wish_.expect == Fabric::kTcp) return figure;
    std::size_t most = 0;
    for (std::size_t j = 0; j < facts_.hosts.size(); ++j) {
      if (host(j).failure.empty()) most = std::max(most, advice(j).ports.size());
    }
    auto why = advice(i).notes;
    if (usable.empty() && wish_.expect == Fabric::kIb) {
      figure.expected = "a usable port (--expect ib)";
      figure.verdict = Verdict::kFail;
    } else if (usable.size() < most) {
      figure.expected =
          std::to_string(most) + (most == 1 ? " port" : " ports") + ", as others have";
      figure.verdict = Verdict::kWarn;
    } else {
      return figure;
    }
    figure.remedy = why.empty() ? "no card is seen: lspci, rdma link" : base::join(why, "; ");
    return figure;
  }

  // Matters to cards only.
  std::optional<Figure> locked_memory(std::size_t i) const {
    if (wish_.expect == Fabric::kTcp || advice(i).ports.empty()) return std::nullopt;
    auto limit = host(i).probed.locked_memory;
    Figure figure{"locked memory", "no limit", {}, "no limit", Verdict::kPass, {}};
    if (limit < 0) return figure;
    figure.value = base::human_bytes(static_cast<std::uint64_t>(limit));
    figure.number = static_cast<double>(limit);
    figure.verdict = Verdict::kWarn;
    figure.remedy =
        "cards register memory: ulimit -l unlimited, or LimitMEMLOCK=infinity of sshd's service";
    return figure;
  }

  // Of the port that is measured: the first one that is advised.
  double ib_gbit(std::size_t i) const {
    auto ports = advice(i).ports;
    for (const auto& device : host(i).hello.cards) {
      for (const auto& port : device.ports) {
        if (!ports.empty() && port.name() == ports.front()) return port.gbit;
      }
    }
    return 0;
  }

  Figure ib_bandwidth(std::size_t i) const {
    Figure figure{"InfiniBand bandwidth", "not measured", {}, {}, Verdict::kPass, {}};
    auto pair = std::ranges::find_if(
        facts_.ib, [&](const ProbedIb& one) { return one.from == i || one.to == i; });
    if (pair == facts_.ib.end()) return figure;
    if (!pair->failure.empty()) {
      figure.value = "failed";
      figure.verdict = wish_.expect == Fabric::kIb ? Verdict::kFail : Verdict::kWarn;
      figure.remedy = pair->failure;
      return figure;
    }
    figure.value = printed("%.1f Gbit/s", pair->gbit);
    figure.number = pair->gbit;
    double both_ways = 2 * std::min(ib_gbit(pair->from), ib_gbit(pair->to));
    figure.expected = printed("%.0f Gbit/s, both ways together", both_ways);
    if (pair->gbit < both_ways * kIbBelow) {
      figure.verdict = Verdict::kWarn;
      figure.remedy = "the card's PCIe link, its cable, or congestion: ibstat; lspci -vv (LnkSta)";
    }
    return figure;
  }

  // ---- all of them ------------------------------------------------------------------------

  // It has what others of which the same is known have not.
  static bool is_odd(const HostVerdict& host, const ProbeReport& report) {
    return std::ranges::any_of(host.figures, [&](const Figure& figure) {
      if (figure.verdict == Verdict::kPass) return false;
      std::size_t others = 0, as_bad = 0;
      for (const auto& other : report.hosts) {
        auto same = std::ranges::find(other.figures, figure.name, &Figure::name);
        if (other.index == host.index || same == other.figures.end()) continue;
        ++others;
        as_bad += same->verdict >= figure.verdict;
      }
      return others == 0 || as_bad < others;
    });
  }

  static void name_outliers(ProbeReport& report) {
    std::set<std::size_t> odd;
    for (const auto& host : report.hosts) {
      if (is_odd(host, report)) odd.insert(host.index);
    }
    std::ranges::stable_sort(report.hosts, std::ranges::greater(), [&](const HostVerdict& host) {
      return std::pair(odd.contains(host.index), host.verdict);
    });
    for (const auto& host : report.hosts) {
      if (odd.contains(host.index)) report.outliers.push_back(host.name);
    }
  }

  const ProbeFacts& facts_;
  const ProbeWish& wish_;
  ProbeBaseline usual_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "unknown";
}

ProbeReport judge_probe(const ProbeFacts& facts, const ProbeWish& wish) {
  return Judge(facts, wish).report();
}

}  // namespace hv::launcher::diagnose
