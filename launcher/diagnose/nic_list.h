// What sysfs adds to a host's interfaces: their kind and speed. Small, because hvagent uses it,
// too.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

// Fills in `kind` and `speed_mbit`. Kinds: physical, infiniband, bond, vlan, veth, virtual, bridge,
// tunnel, loopback.
std::vector<rendezvous::Interface> describe_interfaces(
    std::vector<rendezvous::Interface> interfaces, const std::filesystem::path& sys);

// NAME=value lines with # comments, as in /etc/nccl.conf.
std::vector<rendezvous::KeyValue> parse_nccl_conf(std::string_view text);
// Of /etc/nccl.conf and ~/.nccl.conf of this host.
std::vector<rendezvous::KeyValue> read_nccl_conf();

}  // namespace hv::launcher::diagnose
