// The command line of hvbench.
#pragma once

#include <cstdint>
#include <string>

#include "apps/hvbench/figures.h"
#include "hv/types.h"

namespace hv::bench {

enum class BufferKind : std::uint8_t { kPrivate, kAlloc };

struct Options {
  Operation op = Operation::kAllreduce;
  std::int64_t min_bytes = 8;
  std::int64_t max_bytes = 64 << 20;
  std::int64_t factor = 2;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  int iters = 20;
  int warmup = 5;
  std::int64_t tensors = 1;  // per step
  std::string model;         // replay its gradients instead of the sizes above
  bool raw = false;          // the raw communicator instead of the named path
  BufferKind buffer = BufferKind::kPrivate;
  bool cuda = false;  // tensors on this rank's GPU
  std::string json;
};

// Prints help or a complaint and ends the process where there is nothing to run.
Options parse_options(int argc, char** argv);

}  // namespace hv::bench
