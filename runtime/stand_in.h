// The tensors of a rank that has joined: what changes nothing in the result.
#pragma once

#include <functional>
#include <optional>

#include "runtime/backend/gpu.h"

namespace hv::runtime {

// Gives an operation without a handle one of its own, with memory for input and output in one:
// zeros where values are added, else what leaves a minimum, maximum or product as it is.
// Of a device tensor it is memory of `gpu`.
std::optional<base::Error> fill_stand_in(Op& op, const std::function<base::Result<Gpu*>()>& gpu);

}  // namespace hv::runtime
