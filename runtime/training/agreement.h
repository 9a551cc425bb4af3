// Small collectives by which ranks reach the same conclusion: the same bytes, the same error.
// On the caller's thread; errors are thrown, as everywhere over the public API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hv/hv.h"
#include "hv/parameters.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

// The root's bytes, on every rank.
base::Bytes broadcast_bytes(World& world, const std::string& name, base::Bytes bytes, int root);

// The root's value, on every rank; if the root has an error, every rank throws it.
base::Bytes broadcast_result(World& world, const std::string& name,
                             const base::Result<base::Bytes>& result, int root);

// Every rank must list the same names, shapes and types, in any order; else every rank throws
// kMismatch with the first difference between rank 0 and the lowest rank that differs.
void check_same_on_all_ranks(World& world, const std::string& name,
                             const std::vector<NamedTensor>& tensors);

// Throws kDuplicateName if two tensors share a name, kInvalidArgument if one has none.
void check_names(std::string_view who, const std::vector<NamedTensor>& tensors);

// "fc1.weight float32[64, 128]"
std::string describe(const NamedTensor& tensor);

}  // namespace hv::runtime
