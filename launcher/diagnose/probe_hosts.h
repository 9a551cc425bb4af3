// `hvrun --probe`: every host by itself, then in pairs, all at once. --preflight is its quick form.
//
// Thread: the io_context's. Failure: a host that cannot be probed is part of what was found out.
#pragma once

#include "launcher/diagnose/probe_report.h"
#include "launcher/survey.h"

namespace hv::launcher::diagnose {

struct ProbeDepth {
  base::Millis memory{300};  // 0: not measured
  base::Millis reach{8000};  // for connections, where some are not answered
  base::Millis flow{400};    // of each direction of a pair
  bool ib = true;
  bool all_rounds = true;  // else no further one where all hosts are alike
  static ProbeDepth quick() {
    return {base::Millis(0), base::Millis(3000), base::Millis(100), false, false};
  }
};

struct HostsProbed {
  ProbeFacts facts;
  int interrupted_by = 0;
};
base::Result<HostsProbed> probe_hosts(boost::asio::io_context& io, const JobSpec& spec,
                                      const Plan& plan, std::vector<SpawnGroup> spawners,
                                      const ProbeDepth& depth);

}  // namespace hv::launcher::diagnose
