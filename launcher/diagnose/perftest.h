// The bandwidth of InfiniBand and RoCE, by ib_write_bw of the perftest package.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/messages.h"

namespace hv::launcher::diagnose {

std::vector<std::string> perftest_command(const rendezvous::MeasureIb& order);
// The average of its last line, in Gbit/s.
std::optional<double> parse_perftest(std::string_view output);

// Runs it; a client tries until the server, which another prober starts, is there. Blocks.
base::Result<rendezvous::IbMeasured> measure_ib(const rendezvous::MeasureIb& order);

}  // namespace hv::launcher::diagnose
