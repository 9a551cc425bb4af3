// `hvrun --check-build -H hosts`: hvcheck on every host, and in what its tables differ.
//
// Thread: the io_context's. Failure: a host that cannot be asked is told; the others are compared.
#pragma once

#include "launcher/diagnose/check.h"
#include "launcher/survey.h"

namespace hv::launcher::diagnose {

struct HostsChecked {
  Comparison comparison;
  int interrupted_by = 0;
};
// kNotFound where this machine has no hvcheck to carry.
base::Result<HostsChecked> check_hosts(boost::asio::io_context& io, const JobSpec& spec,
                                       const Plan& plan, std::vector<SpawnGroup> spawners);

}  // namespace hv::launcher::diagnose
