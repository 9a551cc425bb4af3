// Which addresses each host gives the others, and what the libraries of the ranks are told: chosen
// from what the hosts have and from who has really reached whom. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/diagnose/nic_filter.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

struct NicHost {
  std::string name;      // as the user gave it
  std::string identity;  // equal: two names of one host
  std::vector<rendezvous::Interface> interfaces;
  std::string advertise;                       // --advertise-addr, of this machine only
  std::vector<rendezvous::KeyValue> set = {};  // variables that the user or nccl.conf has set here
};

inline constexpr std::size_t kNotInPlan = static_cast<std::size_t>(-1);

// A connection that passed the handshake, so both ends are who they say.
struct Contact {
  std::size_t from = kNotInPlan, to = kNotInPlan;  // hosts; kNotInPlan: hvrun's own machine
  std::string from_address;                        // as the caller sees itself
  std::string seen_as;                             // as the other end sees the caller
  std::string to_address;                          // that was called
};

struct NicChoice {                     // of one host
  std::vector<std::string> addresses;  // best first; never empty
  std::vector<std::string> names;      // of the interfaces to use, best first
  std::vector<rendezvous::KeyValue>
      set;  // NCCL_SOCKET_IFNAME and its kin; never what is set already
};
struct NicPlan {
  std::vector<NicChoice> hosts;
  std::vector<std::string> notes;     // with --verbose: every interface, used or why not
  std::vector<std::string> warnings;  // NAT, conflicts, no usable address
};
NicPlan choose_nics(const std::vector<NicHost>& hosts, const std::vector<Contact>& contacts,
                    const NicFilter& filter);

}  // namespace hv::launcher::diagnose
