#include "launcher/agent/binding.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "rendezvous/base/text.h"

namespace hv::launcher {

namespace fs = std::filesystem;
using rendezvous::Bind;

namespace {

int read_number(const std::string& path) {
  int number = 0;
  std::ifstream(path) >> number;
  return std::max(number, 0);
}

// Nodes are links "node3" in the folder of a processor.
int node_of(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    auto name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    if (auto number = base::parse_int(std::string_view(name).substr(4))) {
      return static_cast<int>(*number);
    }
  }
  return 0;
}

auto core_key(const Cpu& cpu) { return std::tuple(cpu.node, cpu.package, cpu.core); }

// The part of `count` things that belongs to one of `parts`.
struct Part {
  std::size_t first, last;
};
Part part_of(std::size_t count, std::size_t which, std::size_t parts) {
  if (parts >= count) return {which % count, which % count + 1};
  return {which * count / parts, (which + 1) * count / parts};
}

}  // namespace

Topology read_topology(const std::string& sysfs) {
  Topology topology;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return topology;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (!CPU_ISSET(static_cast<std::size_t>(number), &mask)) continue;
    auto folder = sysfs + "/devices/system/cpu/cpu" + std::to_string(number);
    topology.push_back({number, node_of(folder),
                        read_number(folder + "/topology/physical_package_id"),
                        read_number(folder + "/topology/core_id")});
  }
  std::ranges::stable_sort(topology, {}, core_key);
  return topology;
}

Place choose_place(const Topology& topology, Bind bind, int local_rank, std::size_t local_size) {
  Place place;
  if (bind == Bind::kNone || topology.empty()) return place;
  std::set<std::tuple<int, int, int>> cores;
  std::set<int> nodes;
  for (const auto& cpu : topology) {
    cores.insert(core_key(cpu));
    nodes.insert(cpu.node);
  }
  auto rank = static_cast<std::size_t>(local_rank);
  if (bind == Bind::kNuma) {
    auto which = std::min(rank * nodes.size() / local_size, nodes.size() - 1);
    place.node = *std::next(nodes.begin(), static_cast<std::ptrdiff_t>(which));
    for (const auto& cpu : topology) {
      if (cpu.node == place.node) place.cpus.push_back(cpu.number);
    }
    return place;
  }
  auto part = part_of(cores.size(), rank, local_size);
  for (const auto& cpu : topology) {
    auto core = static_cast<std::size_t>(std::distance(cores.begin(), cores.find(core_key(cpu))));
    if (core >= part.first && core < part.last) place.cpus.push_back(cpu.number);
  }
  return place;
}

std::string describe(const Topology& topology, const Place& place) {
  std::vector<int> cpus;
  std::set<int> nodes;
  for (const auto& cpu : topology) {
    bool ours = place.cpus.empty() || std::ranges::find(place.cpus, cpu.number) != place.cpus.end();
    if (!ours) continue;
    cpus.push_back(cpu.number);
    nodes.insert(cpu.node);
  }
  return (place.cpus.empty() ? "not bound, cpus " : "cpus ") + base::ranges(cpus) +
         (nodes.size() > 1 ? " of nodes " : " of node ") +
         base::ranges(std::vector<int>(nodes.begin(), nodes.end()));
}

}  // namespace hv::launcher
