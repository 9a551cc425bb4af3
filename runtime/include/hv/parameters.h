// Tensors by name, and giving every rank the same ones to start from.
#pragma once

#include <string>
#include <vector>

#include "hv/hv.h"

namespace hv {

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// Overwrites the tensors of every rank with those of `root`. Collective: all ranks give the same
// names, shapes and types, in any order; where they differ, every rank throws kMismatch naming the
// first difference and the ranks. For the optimizer's state: broadcast_parameters(world,
// optimizer.state()).
HV_API void broadcast_parameters(World world, const std::vector<NamedTensor>& tensors,
                                 int root = 0);

}  // namespace hv
