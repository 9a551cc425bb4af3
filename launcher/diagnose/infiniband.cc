#include "launcher/diagnose/infiniband.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/diagnose/files.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace fs = std::filesystem;

namespace {

// "4: ACTIVE" → "ACTIVE".
std::string after_colon(const std::string& text) {
  auto colon = text.find(':');
  return std::string(base::trim(colon == text.npos ? text : text.substr(colon + 1)));
}

int read_hex(const fs::path& path) {
  return static_cast<int>(std::strtol(read_text(path).c_str(), nullptr, 16));
}

// Fills in what the 16 bytes say. False: a hole (all zero), or no GID at all.
bool parse_gid(const std::string& text, Gid& gid) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) return false;
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return false;
  char shown[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    gid.scope = GidScope::kIpv4;
    gid.address = ::inet_ntop(AF_INET, &address.s6_addr[12], shown, sizeof shown);
  } else {
    gid.scope = IN6_IS_ADDR_LINKLOCAL(&address) ? GidScope::kLinkLocal : GidScope::kIpv6;
    gid.address = ::inet_ntop(AF_INET6, &address, shown, sizeof shown);
  }
  return true;
}

std::vector<Gid> read_gids(const fs::path& port, LinkLayer layer) {
  std::vector<Gid> gids;
  for (const auto& entry : list_folder(port / "gids")) {
    auto index = base::parse_int(entry);
    Gid gid;
    if (!index || !parse_gid(read_text(port / "gids" / entry), gid)) continue;
    gid.index = static_cast<int>(*index);
    auto type = read_text(port / "gid_attrs/types" / entry);
    if (layer == LinkLayer::kEthernet) {
      gid.type = type == "RoCE v2" ? GidType::kRoceV2 : GidType::kRoceV1;
    }
    gid.netdev = read_text(port / "gid_attrs/ndevs" / entry);
    gids.push_back(std::move(gid));
  }
  return gids;
}

std::string why_unusable(const IbPort& port, const std::string& driver) {
  if (driver == "efa") return "EFA: NCCL uses it through aws-ofi-nccl, not as InfiniBand";
  if (port.phys_state == "Disabled") return "disabled";
  if (port.state == "DOWN") {
    return "down (" + (port.phys_state.empty() ? "no state" : port.phys_state) +
           "): no cable, or the other end is off";
  }
  if (port.state != "ACTIVE") {
    return "state " + (port.state.empty() ? "unknown" : port.state) +
           (port.layer == LinkLayer::kInfiniband ? ": no subnet manager has set it up" : "");
  }
  if (port.layer == LinkLayer::kInfiniband && (port.sm_lid == 0 || port.lid == 0)) {
    return port.sm_lid == 0 ? "no subnet manager (SM lid 0)" : "no lid";
  }
  if (port.layer == LinkLayer::kEthernet && port.gids.empty()) return "its GID table is empty";
  if (port.layer == LinkLayer::kOther) return "neither InfiniBand nor Ethernet";
  return {};
}

IbPort read_port(const fs::path& folder, const std::string& device, const std::string& driver) {
  IbPort port;
  port.device = device;
  port.number = static_cast<int>(base::parse_int(folder.filename().string()).value_or(0));
  auto layer = read_text(folder / "link_layer");
  port.layer = layer == "InfiniBand" ? LinkLayer::kInfiniband
               : layer == "Ethernet" ? LinkLayer::kEthernet
                                     : LinkLayer::kOther;
  port.state = after_colon(read_text(folder / "state"));
  port.phys_state = after_colon(read_text(folder / "phys_state"));
  port.rate = read_text(folder / "rate");
  port.gbit = std::strtod(port.rate.c_str(), nullptr);
  port.lid = read_hex(folder / "lid");
  port.sm_lid = read_hex(folder / "sm_lid");
  port.gids = read_gids(folder, port.layer);
  if (port.layer == LinkLayer::kEthernet && !port.gids.empty()) {
    port.netdev = port.gids.front().netdev;
  }
  port.unusable = why_unusable(port, driver);
  return port;
}

PciPlace read_place(const fs::path& device) {
  PciPlace place;
  std::error_code none;
  auto real = fs::canonical(device, none);
  place.address = real.filename().string();
  place.numa_node = static_cast<int>(read_int(device / "numa_node").value_or(-1));
  for (const auto& part : real) {
    auto name = part.string();
    if (!place.bridges.empty() || name.starts_with("pci")) place.bridges.push_back(name);
  }
  return place;
}

}  // namespace

std::string_view to_string(GidType type) {
  switch (type) {
    case GidType::kInfiniband:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

std::string_view to_string(LinkLayer layer) {
  switch (layer) {
    case LinkLayer::kInfiniband:
      return "InfiniBand";
    case LinkLayer::kEthernet:
      return "Ethernet";
    case LinkLayer::kOther:
      return "other link layer";
  }
  return "unknown";
}

std::string_view to_string(PciDistance distance) {
  switch (distance) {
    case PciDistance::kPix:
      return "PIX";
    case PciDistance::kPxb:
      return "PXB";
    case PciDistance::kPhb:
      return "PHB";
    case PciDistance::kNode:
      return "NODE";
    case PciDistance::kSys:
      return "SYS";
  }
  return "unknown";
}

PciDistance distance(const PciPlace& a, const PciPlace& b) {
  auto common =
      static_cast<std::size_t>(std::ranges::mismatch(a.bridges, b.bridges).in1 - a.bridges.begin());
  if (common == 0) {
    return a.numa_node >= 0 && a.numa_node == b.numa_node ? PciDistance::kNode : PciDistance::kSys;
  }
  if (common == 1) return PciDistance::kPhb;
  // One switch between them: their own ports of it, and nothing else, differ.
  if (common + 2 >= std::max(a.bridges.size(), b.bridges.size())) return PciDistance::kPix;
  return PciDistance::kPxb;
}

std::vector<IbDevice> read_ib_devices(const fs::path& sys) {
  std::vector<IbDevice> devices;
  auto all = sys / "class/infiniband";
  for (const auto& name : list_folder(all)) {
    IbDevice device;
    device.name = name;
    device.driver = link_name(all / name / "device/driver");
    device.type = read_text(all / name / "hca_type");
    device.firmware = read_text(all / name / "fw_ver");
    device.place = read_place(all / name / "device");
    for (const auto& port : list_folder(all / name / "ports")) {
      device.ports.push_back(read_port(all / name / "ports" / port, name, device.driver));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<PciPlace> read_gpus(const fs::path& sys) {
  std::vector<PciPlace> gpus;
  auto all = sys / "bus/pci/devices";
  for (const auto& name : list_folder(all)) {
    auto kind = read_text(all / name / "class");     // 0x030000 VGA, 0x030200 3D controller
    auto vendor = read_text(all / name / "vendor");  // NVIDIA, AMD
    bool gpu =
        kind.starts_with("0x0300") || kind.starts_with("0x0302") || kind.starts_with("0x1200");
    if (gpu && (vendor == "0x10de" || vendor == "0x1002")) gpus.push_back(read_place(all / name));
  }
  return gpus;
}

}  // namespace hv::launcher::diagnose
