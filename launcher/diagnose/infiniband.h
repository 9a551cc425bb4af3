// InfiniBand and RoCE cards as the kernel shows them under /sys/class/infiniband, and where they
// sit in relation to the GPUs. Reads files only; a machine without cards has an empty list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/diagnose/check.h"
#include "rendezvous/cards.h"

namespace hv::launcher::diagnose {

using rendezvous::Gid;
using rendezvous::GidScope;
using rendezvous::GidType;
using rendezvous::IbDevice;
using rendezvous::IbPort;
using rendezvous::LinkLayer;
using rendezvous::PciPlace;

std::string_view to_string(GidType type);
std::string_view to_string(LinkLayer layer);

// As in `nvidia-smi topo -m`: under one switch, under several, under one host bridge, on one NUMA
// node, across nodes.
enum class PciDistance : std::uint8_t { kPix, kPxb, kPhb, kNode, kSys };
std::string_view to_string(PciDistance distance);

PciDistance distance(const PciPlace& a, const PciPlace& b);

std::vector<IbDevice> read_ib_devices(const std::filesystem::path& sys);

std::vector<PciPlace> read_gpus(const std::filesystem::path& sys);

// One line a port and one for each of its GIDs, for the table of --check-build.
std::vector<Check> describe_ports(const std::vector<IbDevice>& devices,
                                  const std::vector<PciPlace>& gpus);

}  // namespace hv::launcher::diagnose
