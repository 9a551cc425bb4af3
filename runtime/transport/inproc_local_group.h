// LocalGroup between threads of one process, for tests.
#pragma once

#include <memory>
#include <vector>

#include "runtime/transport/local_group.h"

namespace hv::runtime {

// One group of `size` threads: element i is for local rank i.
std::vector<std::shared_ptr<LocalGroup>> make_inproc_local_groups(int size);

}  // namespace hv::runtime
