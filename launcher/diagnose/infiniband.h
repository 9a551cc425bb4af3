// InfiniBand and RoCE cards as the kernel shows them under /sys/class/infiniband, and where they
// sit in relation to the GPUs. Reads files only; a machine without cards has an empty list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/diagnose/check.h"

namespace hv::launcher::diagnose {

enum class GidType : std::uint8_t { kInfiniband, kRoceV1, kRoceV2 };
std::string_view to_string(GidType type);

enum class GidScope : std::uint8_t { kLinkLocal, kIpv4, kIpv6 };  // kIpv6: global or ULA

struct Gid {  // holes of the table are left out
  int index = 0;
  GidType type = GidType::kInfiniband;
  GidScope scope = GidScope::kLinkLocal;
  std::string address;  // "10.1.0.3", "fd00::3"
  std::string netdev;
};

enum class LinkLayer : std::uint8_t { kInfiniband, kEthernet, kOther };
std::string_view to_string(LinkLayer layer);

struct IbPort {
  std::string device;
  int number = 1;
  LinkLayer layer = LinkLayer::kOther;
  std::string state;       // "ACTIVE", "DOWN", "INIT"
  std::string phys_state;  // "LinkUp", "Disabled", "Polling"
  std::string rate;        // "200 Gb/sec (4X HDR)"
  double gbit = 0;
  int lid = 0, sm_lid = 0;
  std::string netdev;  // of RoCE
  std::vector<Gid> gids;
  std::string unusable;  // why; empty: usable

  std::string name() const { return device + ":" + std::to_string(number); }
};

// As in `nvidia-smi topo -m`: under one switch, under several, under one host bridge, on one NUMA
// node, across nodes.
enum class PciDistance : std::uint8_t { kPix, kPxb, kPhb, kNode, kSys };
std::string_view to_string(PciDistance distance);

struct PciPlace {
  std::string address;               // "0000:17:00.0"
  std::vector<std::string> bridges;  // from "pci0000:16" down to the device itself
  int numa_node = -1;
};
PciDistance distance(const PciPlace& a, const PciPlace& b);

struct IbDevice {
  std::string name;    // "mlx5_0"
  std::string driver;  // "mlx5_core", "efa"
  std::string type;    // "MT4123"
  std::string firmware;
  PciPlace place;
  std::vector<IbPort> ports;
};
std::vector<IbDevice> read_ib_devices(const std::filesystem::path& sys);

std::vector<PciPlace> read_gpus(const std::filesystem::path& sys);

// One line a port and one for each of its GIDs, for the table of --check-build.
std::vector<Check> describe_ports(const std::vector<IbDevice>& devices,
                                  const std::vector<PciPlace>& gpus);

}  // namespace hv::launcher::diagnose
