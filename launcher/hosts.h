// Text → hosts: -H lists, hostfiles, and the default where neither is given.
//
//   list      host[:slots],host[:slots]…       host = [user@]name | [user@][IPv6]
//   hostfile  host[:slots] [slots=N] [port=N] [user=NAME]   one per line, # comments
//
// Whatever is wrong is kUsage and fits on a screen: the place, the text with a caret, what to type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

// Entries of one host (same name, user and port) become one host with the sum of their slots.
base::Result<std::vector<HostSpec>> parse_host_list(std::string_view text);
base::Result<std::vector<HostSpec>> parse_hostfile(std::string_view text, std::string_view name);
base::Result<std::vector<HostSpec>> read_hostfile(const std::string& path);

// "h1:2", "user@h1", "10.0.0.3", "[::1]:2": a host by its spelling, not merely a word.
bool looks_like_host(std::string_view word);

// "me@[::1]:2": a host as it is typed in a list.
std::string spell(const HostSpec& host);

struct ThisMachine {
  std::string user;                 // of this process
  std::vector<std::string> names;   // its names and the addresses of its interfaces
  std::vector<std::string> others;  // names and addresses of other hosts in /etc/hosts
};
ThisMachine this_machine();  // reads files and interfaces; no name service is asked

// Reached without ssh: one of this machine's names, no port of its own, no other user.
bool is_local(const HostSpec& host, const ThisMachine& machine);

// One of the names above: tells a host from a hostfile that is given as -H.
bool is_known_host(std::string_view word, const ThisMachine& machine);

// One host for a job that names none: `np` slots, or (np = 0) one for each visible GPU, or for each
// core of the affinity mask.
HostSpec default_host(int np);

}  // namespace hv::launcher
