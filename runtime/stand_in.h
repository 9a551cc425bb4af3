// The tensors of a rank that has joined: what changes nothing in the result.
#pragma once

#include <optional>

#include "rendezvous/base/error.h"
#include "runtime/op.h"

namespace hv::runtime {

// Gives an operation without a handle one of its own, with memory for input and output in one:
// zeros where values are added, else what leaves a minimum, maximum or product as it is.
std::optional<base::Error> fill_stand_in(Op& op);

}  // namespace hv::runtime
