// What NCCL should be told about InfiniBand and RoCE cards: for one host, and for hosts that are
// not alike. Pure. What the user has set stays as it is; conflicts are told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/diagnose/infiniband.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

struct IbWish {
  std::optional<bool> ipv6;                // family of the chosen network; nullopt: IPv4 first
  std::vector<std::string> netdevs;        // --nic: RoCE ports of these only; empty: any
  std::vector<rendezvous::KeyValue> user;  // NCCL_* that the user, or nccl.conf, has set
  std::vector<std::string> only = {};      // ports ("mlx5_0:1") that all hosts have; empty: any
};

struct IbAdvice {
  std::vector<std::string> ports;         // "mlx5_0:1": proposed; empty: no card to use
  int gid_index = -1;                     // of RoCE; -1: nothing to say
  std::vector<rendezvous::KeyValue> set;  // what to set; never a name that the user has set
  std::vector<std::string> notes;         // dropped ports: for people
  std::vector<std::string> conflicts;     // what the user has set and cannot work
};
// Of the usable ports those of the faster kind; for RoCE those with one GID index in common that is
// version 2, routable and of the wished family.
IbAdvice advise(const std::vector<IbDevice>& devices, const IbWish& wish);

struct HostCards {
  std::string host;
  std::vector<IbDevice> devices;
  IbWish wish;
};
struct IbComparison {
  std::vector<IbAdvice> advice;       // in the order of the hosts, after the common subset
  std::vector<std::string> warnings;  // unequal cards, rates, GID tables: who has what
};
IbComparison compare_cards(std::vector<HostCards> hosts);

}  // namespace hv::launcher::diagnose
