// Which spawner reaches which hosts of a plan.
#pragma once

#include <boost/asio/io_context.hpp>
#include <vector>

#include "launcher/job_spec.h"
#include "launcher/plan.h"
#include "launcher/supervisor.h"
#include "rendezvous/base/result.h"

namespace hv::launcher {

base::Result<std::vector<SpawnGroup>> make_spawn_groups(boost::asio::io_context& io,
                                                        const JobSpec& spec, const Plan& plan);

}  // namespace hv::launcher
