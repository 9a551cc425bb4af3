// Options of Horovod's launcher that hvrun knows and does not take, each with one sentence on why.
#pragma once

#include <span>
#include <vector>

#include "apps/hvrun/words.h"
#include "rendezvous/base/result.h"

namespace hv::apps {

struct RefusedOption {
  const char* name;
  bool takes_value;
  const char* why;
};
std::span<const RefusedOption> refused_options();

// kUsage for the first of the options that is refused.
base::Result<void> check_refused(const std::vector<OptionWord>& options);

}  // namespace hv::apps
