// The lines of --check-build about InfiniBand and RoCE.
#include "launcher/diagnose/infiniband.h"
#include "rendezvous/base/text.h"

namespace hv::launcher::diagnose {

namespace {

// "InfiniBand, 200 Gb/sec (4X HDR), lid 5, 0000:17:00.0, NUMA node 0, GPU 0000:18:00.0 PIX".
std::string facts_of(const IbDevice& device, const IbPort& port,
                     const std::vector<PciPlace>& gpus) {
  std::vector<std::string> facts = {std::string(to_string(port.layer))};
  auto add = [&](bool known, const std::string& text) {
    if (known) facts.push_back(text);
  };
  add(!port.rate.empty(), port.rate);
  add(port.layer == LinkLayer::kInfiniband, "lid " + std::to_string(port.lid));
  add(!port.netdev.empty(), port.netdev);
  add(!device.place.address.empty(), device.place.address);
  add(device.place.numa_node >= 0, "NUMA node " + std::to_string(device.place.numa_node));
  for (const auto& gpu : gpus) {
    facts.push_back("GPU " + gpu.address + " " +
                    std::string(to_string(distance(device.place, gpu))));
  }
  return base::join(facts, ", ");
}

}  // namespace

std::vector<Check> describe_ports(const std::vector<IbDevice>& devices,
                                  const std::vector<PciPlace>& gpus) {
  constexpr const char* kGroup = "InfiniBand and RoCE";
  std::vector<Check> checks;
  for (const auto& device : devices) {
    for (const auto& port : device.ports) {
      auto facts = facts_of(device, port, gpus);
      Check check = port.unusable.empty() ? yes(kGroup, port.name())
                                          : no(kGroup, port.name(), port.unusable + "; ");
      check.reason += facts;
      check.version = device.firmware.empty() ? "" : "firmware " + device.firmware;
      checks.push_back(std::move(check));
      for (const auto& gid : port.gids) {
        Check line = value(kGroup, port.name() + " GID " + std::to_string(gid.index),
                           std::string(to_string(gid.type)) + " " + gid.address);
        line.reason = gid.netdev;
        checks.push_back(std::move(line));
      }
    }
  }
  if (checks.empty()) checks.push_back(no(kGroup, "cards", "none on this machine"));
  return checks;
}

}  // namespace hv::launcher::diagnose
