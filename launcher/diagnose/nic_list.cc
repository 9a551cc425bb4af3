#include "launcher/diagnose/nic_list.h"

#include <algorithm>
#include <iterator>

#include "launcher/diagnose/files.h"
#include "rendezvous/base/env.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

// ARPHRD_*, as sysfs tells them.
constexpr std::int64_t kTypeLoopback = 772, kTypeInfiniband = 32, kTypeNone = 65534,
                       kTypeIpTunnel = 768, kTypeGre = 778;

std::string kind_of(const fs::path& folder) {
  std::error_code none;
  auto there = [&](const char* name) { return fs::exists(folder / name, none); };
  auto type = read_int(folder / "type").value_or(0);
  auto told = field_of(read_text(folder / "uevent"), "DEVTYPE", '=');
  if (type == kTypeLoopback) return "loopback";
  if (there("bridge") || told == "bridge") return "bridge";
  if (there("bonding") || told == "bond") return "bond";
  if (there("tun_flags") || type == kTypeNone || type == kTypeIpTunnel || type == kTypeGre ||
      told == "vxlan" || told == "geneve" || told == "wireguard") {
    return "tunnel";
  }
  if (type == kTypeInfiniband) return "infiniband";
  if (told == "vlan") return "vlan";
  if (there("device")) return "physical";
  // A veth is linked to its other end, which has another number.
  auto index = read_int(folder / "ifindex"), link = read_int(folder / "iflink");
  return index && link && *index != *link ? "veth" : "virtual";
}

}  // namespace

std::vector<rendezvous::Interface> describe_interfaces(
    std::vector<rendezvous::Interface> interfaces, const fs::path& sys) {
  for (auto& one : interfaces) {
    auto folder = sys / "class/net" / one.name;
    std::error_code none;
    if (!fs::exists(folder, none)) continue;
    one.kind = kind_of(folder);
    auto speed = read_int(folder / "speed").value_or(0);  // -1, or an error, while unknown
    one.speed_mbit = speed > 0 ? static_cast<std::uint32_t>(speed) : 0;
  }
  return interfaces;
}

std::vector<rendezvous::KeyValue> parse_nccl_conf(std::string_view text) {
  std::vector<rendezvous::KeyValue> settings;
  for (auto line : base::split(text, '\n')) {
    line = base::trim(line.substr(0, line.find('#')));
    auto sign = line.find('=');
    if (sign == line.npos || sign == 0) continue;
    settings.push_back({std::string(base::trim(line.substr(0, sign))),
                        std::string(base::trim(line.substr(sign + 1)))});
  }
  return settings;
}

std::vector<rendezvous::KeyValue> read_nccl_conf() {
  auto settings = parse_nccl_conf(read_text("/etc/nccl.conf"));
  if (auto home = base::env("HOME")) {
    std::ranges::move(parse_nccl_conf(read_text(*home + "/.nccl.conf")),
                      std::back_inserter(settings));
  }
  return settings;
}

}  // namespace hv::launcher::diagnose
