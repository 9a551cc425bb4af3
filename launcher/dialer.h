// Name → connected TCP socket within one deadline: the name service is asked beside us (it knows no
// deadline of its own), and the addresses are tried with a short head start for the earlier ones.
#pragma once

#include <string>

#include "launcher/ssh_config.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

struct DialAddress {
  std::string host_name;
  int port = 22;
  AddressFamily family = AddressFamily::kAny;
  std::string bind_address;
};

// kNotFound: no such name; kTimeout; kUnavailable with errno in sys: refused, unreachable. The text
// starts with the kind of trouble. Becoming readable, `stop` ends it with kAborted. The socket does
// not block.
base::Result<base::UniqueFd> dial_tcp(const DialAddress& address, base::Deadline deadline,
                                      int stop);

}  // namespace hv::launcher
