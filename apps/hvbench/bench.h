// Running one benchmark step after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/hvbench/cuda.h"
#include "apps/hvbench/figures.h"
#include "apps/hvbench/options.h"
#include "apps/hvbench/pattern.h"
#include "hv/hv.h"

namespace hv::bench {

// Memory for all tensors of a step, private or shared with the other ranks of the host.
class Memory {
 public:
  Memory() = default;
  Memory(Communicator& communicator, BufferKind kind, std::size_t bytes);
  Memory(CudaDevice& device, std::size_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }  // of a device: not for the host to read

 private:
  Buffer shared_;
  std::shared_ptr<void> private_;
  std::span<std::byte> bytes_;
};

// Purpose: times steps, each of one or several tensors, and counts wrong elements. Thread: the
// caller's. Owns the buffers. Collective: all ranks measure the same steps; throws hv::Error.
class Bench {
 public:
  Bench(World world, const Options& options);

  // A step of tensors with these many elements each (of a block, where there is one per rank).
  Figures measure(const std::vector<std::int64_t>& counts, bool raw);

 private:
  struct Tensor {
    TensorView in, out;  // equal where the operation has no blocks; out: the raw communicator's
    std::int64_t count = 0;
    std::int64_t index = 0;
  };

  std::vector<Tensor> lay_out(const std::vector<std::int64_t>& counts);
  TensorView make_view(std::int64_t count) const;
  void rewrite(const Tensor& tensor, std::int64_t step);
  std::span<std::byte> to_write(const TensorView& tensor);
  void written(const TensorView& tensor);
  std::span<const std::byte> to_read(const TensorView& tensor);
  GatherCounts even(const Tensor& tensor) const;
  void call_raw(const Tensor& tensor);
  void call_named(const std::vector<Tensor>& tensors);
  std::int64_t count_wrong(const Tensor& tensor, const TensorView& result, std::int64_t step);
  double time_step(const std::vector<Tensor>& tensors, bool raw);
  std::int64_t count_wrong(const std::vector<Tensor>& tensors, std::int64_t step, bool raw);
  void reserve(std::size_t in_bytes, std::size_t out_bytes);

  World world_;
  Communicator communicator_;
  const Options options_;
  Pattern input_, expected_;
  std::vector<Pattern> inputs_;         // of every rank, for what is gathered or broadcast
  std::shared_ptr<CudaDevice> device_;  // null: the host
  std::vector<std::byte> stage_;        // of a device tensor, for the host
  Memory in_, out_;
  std::vector<Handle> handles_;
};

}  // namespace hv::bench
