// Makes /sys trees of InfiniBand and RoCE cards and of GPUs, in the shapes that drivers give them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/tree.h"

namespace hv::test {

struct FakeGid {
  int index = 0;
  std::string gid;  // as in sysfs: eight groups of four digits
  std::string type = "RoCE v2";
};

struct FakePort {
  std::string layer = "InfiniBand";
  std::string state = "4: ACTIVE", phys_state = "5: LinkUp";
  std::string rate = "200 Gb/sec (4X HDR)";
  int lid = 5, sm_lid = 1;
  std::string netdev = {};
  std::vector<FakeGid> gids = {{0, "fe80:0000:0000:0000:0c42:a103:0012:3456", "IB/RoCE v1"}};
};

class IbTree : public Tree {
 public:
  // `path` below /sys/devices: "pci0000:16/0000:16:02.0/0000:17:00.0".
  void card(const std::string& name, const std::string& path, int numa,
            const std::vector<FakePort>& ports, const std::string& driver = "mlx5_core") const {
    std::string device = "devices/" + path;
    pci(path, numa, "0x020700", "0x15b3");
    folder("bus/pci/drivers/" + driver);
    link(device + "/driver", up(path) + "bus/pci/drivers/" + driver);
    std::string ib = device + "/infiniband/" + name;
    write(ib + "/hca_type", "MT4123\n");
    write(ib + "/fw_ver", "20.38.1002\n");
    write(ib + "/node_type", "1: CA\n");
    link(ib + "/device", "../../../" + path.substr(path.rfind('/') + 1));
    link("class/infiniband/" + name, "../../" + ib);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      port(ib + "/ports/" + std::to_string(i + 1), ports[i]);
    }
  }
  void gpu(const std::string& path, int numa, const std::string& vendor = "0x10de") const {
    pci(path, numa, "0x030200", vendor);
  }

 private:
  static std::string up(const std::string& path) {
    std::string text = "../../";
    for (char c : path) {
      if (c == '/') text += "../";
    }
    return text;
  }
  void pci(const std::string& path, int numa, const std::string& kind,
           const std::string& vendor) const {
    write("devices/" + path + "/numa_node", std::to_string(numa) + "\n");
    write("devices/" + path + "/class", kind + "\n");
    write("devices/" + path + "/vendor", vendor + "\n");
    link("bus/pci/devices/" + path.substr(path.rfind('/') + 1), "../../../devices/" + path);
  }
  void port(const std::string& path, const FakePort& port) const {
    constexpr int kTable = 16;  // real ones have 128 or 256 entries, nearly all zero
    write(path + "/link_layer", port.layer + "\n");
    write(path + "/state", port.state + "\n");
    write(path + "/phys_state", port.phys_state + "\n");
    write(path + "/rate", port.rate + "\n");
    char text[16];
    std::snprintf(text, sizeof text, "0x%x\n", static_cast<unsigned>(port.lid));
    write(path + "/lid", text);
    std::snprintf(text, sizeof text, "0x%x\n", static_cast<unsigned>(port.sm_lid));
    write(path + "/sm_lid", text);
    for (int i = 0; i < kTable; ++i) {
      write(path + "/gids/" + std::to_string(i), "0000:0000:0000:0000:0000:0000:0000:0000\n");
    }
    for (const auto& gid : port.gids) {
      auto index = std::to_string(gid.index);
      write(path + "/gids/" + index, gid.gid + "\n");
      write(path + "/gid_attrs/types/" + index, gid.type + "\n");
      if (!port.netdev.empty()) write(path + "/gid_attrs/ndevs/" + index, port.netdev + "\n");
    }
  }
};

inline constexpr const char* kLinkLocal = "fe80:0000:0000:0000:0e42:a1ff:fe12:3456";
inline constexpr const char* kMapped = "0000:0000:0000:0000:0000:ffff:0a09:0003";  // 10.9.0.3
inline constexpr const char* kUla = "fd00:0009:0000:0000:0000:0000:0000:0003";

// A RoCE port with the usual table: v1 and v2 of the link-local address, then of IPv4.
inline FakePort roce(const std::string& netdev, const std::string& rate = "100 Gb/sec (4X EDR)") {
  FakePort port;
  port.layer = "Ethernet";
  port.rate = rate;
  port.lid = port.sm_lid = 0;
  port.netdev = netdev;
  port.gids = {{0, kLinkLocal, "IB/RoCE v1"},
               {1, kLinkLocal, "RoCE v2"},
               {2, kMapped, "IB/RoCE v1"},
               {3, kMapped, "RoCE v2"}};
  return port;
}

inline FakePort down(FakePort port, const std::string& phys_state = "2: Polling") {
  port.state = "1: DOWN";
  port.phys_state = phys_state;
  port.lid = port.sm_lid = 0;
  return port;
}

}  // namespace hv::test
