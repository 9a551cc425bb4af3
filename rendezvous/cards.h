// InfiniBand and RoCE cards of a host, as its agent tells them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/fields.h"

namespace hv::rendezvous {

enum class GidType : std::uint8_t { kInfiniband, kRoceV1, kRoceV2 };
inline bool is_known(GidType type) { return type <= GidType::kRoceV2; }

enum class GidScope : std::uint8_t { kLinkLocal, kIpv4, kIpv6 };  // kIpv6: global or ULA
inline bool is_known(GidScope scope) { return scope <= GidScope::kIpv6; }

struct Gid {  // holes of the table are left out
  std::int32_t index = 0;
  GidType type = GidType::kInfiniband;
  GidScope scope = GidScope::kLinkLocal;
  std::string address;  // "10.1.0.3", "fd00::3"
  std::string netdev;
  HV_FIELDS(s.index, s.type, s.scope, s.address, s.netdev)
};

enum class LinkLayer : std::uint8_t { kInfiniband, kEthernet, kOther };
inline bool is_known(LinkLayer layer) { return layer <= LinkLayer::kOther; }

struct IbPort {
  std::string device;
  std::int32_t number = 1;
  LinkLayer layer = LinkLayer::kOther;
  std::string state;       // "ACTIVE", "DOWN", "INIT"
  std::string phys_state;  // "LinkUp", "Disabled", "Polling"
  std::string rate;        // "200 Gb/sec (4X HDR)"
  double gbit = 0;
  std::int32_t lid = 0, sm_lid = 0;
  std::string netdev;  // of RoCE
  std::vector<Gid> gids;
  std::string unusable;  // why; empty: usable
  HV_FIELDS(s.device, s.number, s.layer, s.state, s.phys_state, s.rate, s.gbit, s.lid, s.sm_lid,
            s.netdev, s.gids, s.unusable)

  std::string name() const { return device + ":" + std::to_string(number); }
};

struct PciPlace {
  std::string address;               // "0000:17:00.0"
  std::vector<std::string> bridges;  // from "pci0000:16" down to the device itself
  std::int32_t numa_node = -1;
  HV_FIELDS(s.address, s.bridges, s.numa_node)
};

struct IbDevice {
  std::string name;    // "mlx5_0"
  std::string driver;  // "mlx5_core", "efa"
  std::string type;    // "MT4123"
  std::string firmware;
  PciPlace place;
  std::vector<IbPort> ports;
  HV_FIELDS(s.name, s.driver, s.type, s.firmware, s.place, s.ports)
};

}  // namespace hv::rendezvous
