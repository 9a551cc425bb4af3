// The text of a mismatch: the tensor's name and what each side submitted, ranks as ranges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/negotiation.h"

namespace hv::runtime {

struct Side {
  const Signature* signature;
  std::vector<int> ranks;
};

// "allreduce 'w' differs between ranks: shape [3, 4] on ranks 0-2, [4, 4] on rank 3; …"
std::string describe_mismatch(std::string_view name, std::vector<Side> sides);

}  // namespace hv::runtime
