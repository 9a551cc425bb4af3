// The compressed lists of Slurm: names of nodes ("n[001-003,007],login") and counts per node
// ("2(x3),1"). Expanded in-process, in the order in which Slurm numbers the nodes. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace hv::launcher {

// The same names in the same order as `scontrol show hostnames`. What scontrol refuses or mangles
// (an open bracket, a reversed range) is kUsage with the place marked; `source` says where the text
// came from, for example "SLURM_JOB_NODELIST". A text after the last bracket, which older Slurm
// refuses ("n[1-2]-ib"), is taken.
base::Result<std::vector<std::string>> expand_node_list(std::string_view text,
                                                        std::string_view source);

// "2(x3),1" → 2 2 2 1. At least one count; each count at least 1.
base::Result<std::vector<int>> expand_counts(std::string_view text, std::string_view source);

}  // namespace hv::launcher
