#include "apps/hvbench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

namespace hv::bench {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kRoot = 0;
constexpr int kGarbage = 0xa5;  // in buffers whose old contents must not survive

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::span<std::byte> memory_of(const TensorView& tensor) {
  return {static_cast<std::byte*>(tensor.data), tensor.bytes()};
}

// Another place in the pattern for each step and tensor.
std::int64_t phase(std::int64_t step, std::int64_t tensor) { return step * 7 + tensor * 13; }

}  // namespace

Memory::Memory(Communicator& communicator, BufferKind kind, std::size_t bytes) {
  bytes = std::max(aligned(bytes), kAlignment);
  if (kind == BufferKind::kAlloc) {
    shared_ = communicator.alloc(bytes);
    bytes_ = {static_cast<std::byte*>(shared_.data()), bytes};
    return;
  }
  void* data = std::aligned_alloc(kAlignment, bytes);
  if (!data) throw std::bad_alloc();
  private_.reset(data, std::free);
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

Memory::Memory(CudaDevice& device, std::size_t bytes) {
  bytes = std::max(aligned(bytes), kAlignment);
  private_ = device.allocate(bytes);
  bytes_ = {static_cast<std::byte*>(private_.get()), bytes};
}

Bench::Bench(World world, const Options& options)
    : world_(world),
      communicator_(world.communicator()),
      options_(options),
      input_(input_pattern(options.dtype, options.reduce, world.rank(), world.size())),
      expected_(expected_pattern(options.dtype, options.reduce, world.size())) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    inputs_.push_back(input_pattern(options.dtype, options.reduce, rank, world_.size()));
  }
  if (options.cuda) device_ = CudaDevice::open(world_);
}

TensorView Bench::make_view(std::int64_t count) const {
  return {nullptr, options_.dtype, {count}, device_ ? device_->ordinal() : -1};
}

// A tensor's bytes for the host to write, then written; or to read.
std::span<std::byte> Bench::to_write(const TensorView& tensor) {
  if (!device_) return memory_of(tensor);
  stage_.resize(tensor.bytes());
  return stage_;
}
void Bench::written(const TensorView& tensor) {
  if (device_) device_->copy(tensor.data, stage_.data(), stage_.size());
}
std::span<const std::byte> Bench::to_read(const TensorView& tensor) {
  if (!device_) return memory_of(tensor);
  stage_.resize(tensor.bytes());
  device_->copy(stage_.data(), tensor.data, stage_.size());
  return stage_;
}

// Kept from step to step, since allocating shared memory is collective and slow. All ranks call
// this with the same sizes, so all grow at the same step.
void Bench::reserve(std::size_t in_bytes, std::size_t out_bytes) {
  if (in_.bytes().size() < in_bytes) {
    in_ = {};
    in_ = device_ ? Memory(*device_, in_bytes) : Memory(communicator_, options_.buffer, in_bytes);
  }
  if (out_.bytes().size() < out_bytes) {
    out_ = {};
    out_ =
        device_ ? Memory(*device_, out_bytes) : Memory(communicator_, options_.buffer, out_bytes);
  }
}

std::vector<Bench::Tensor> Bench::lay_out(const std::vector<std::int64_t>& counts) {
  const Operation op = options_.op;
  const std::int64_t ranks = world_.size();
  std::vector<Tensor> tensors;
  std::size_t in_bytes = 0, out_bytes = 0;
  for (std::int64_t count : counts) {
    Tensor tensor;
    tensor.count = count;
    tensor.index = static_cast<std::int64_t>(tensors.size());
    const bool in_blocks = has_blocks(op) && op != Operation::kAllgather;
    const bool out_blocks = has_blocks(op) && op != Operation::kReducescatter;
    tensor.in = make_view(in_blocks ? count * ranks : count);
    tensor.out = make_view(out_blocks ? count * ranks : count);
    in_bytes += aligned(tensor.in.bytes());
    if (has_blocks(op)) out_bytes += aligned(tensor.out.bytes());
    tensors.push_back(std::move(tensor));
  }
  reserve(in_bytes, out_bytes);
  std::byte* in = in_.bytes().data();
  std::byte* out = out_.bytes().data();
  for (Tensor& tensor : tensors) {
    tensor.in.data = tensor.out.data = in;
    in += aligned(tensor.in.bytes());
    if (!has_blocks(op)) continue;
    tensor.out.data = out;
    out += aligned(tensor.out.bytes());
  }
  return tensors;
}

void Bench::rewrite(const Tensor& tensor, std::int64_t step) {
  const bool receives = options_.op == Operation::kBroadcast && world_.rank() != kRoot;
  const auto in = to_write(tensor.in);
  if (receives) {
    std::memset(in.data(), kGarbage, in.size());
  } else {
    input_.fill(in, phase(step, tensor.index));
  }
  written(tensor.in);
  if (!has_blocks(options_.op)) return;
  const auto out = to_write(tensor.out);
  std::memset(out.data(), kGarbage, out.size());
  written(tensor.out);
}

GatherCounts Bench::even(const Tensor& tensor) const {
  return {std::vector<std::int64_t>(static_cast<std::size_t>(world_.size()), tensor.count)};
}

void Bench::call_raw(const Tensor& tensor) {
  if (device_) return device_->plain_allreduce(tensor.in, options_.reduce);
  switch (options_.op) {
    case Operation::kAllreduce:
      return communicator_.allreduce(tensor.in, options_.reduce);
    case Operation::kBroadcast:
      return communicator_.broadcast(tensor.in, kRoot);
    case Operation::kAllgather:
      return communicator_.allgather(tensor.in, tensor.out, even(tensor));
    case Operation::kReducescatter:
      return communicator_.reducescatter(tensor.in, tensor.out, even(tensor), options_.reduce);
    case Operation::kAlltoall:
      return communicator_.alltoall(tensor.in, tensor.out);
    case Operation::kBarrier:
      return communicator_.barrier();
  }
}

void Bench::call_named(const std::vector<Tensor>& tensors) {
  handles_.clear();
  for (const auto& tensor : tensors) {
    const std::string name = "hvbench." + std::to_string(tensor.index);
    switch (options_.op) {
      case Operation::kAllreduce:
        handles_.push_back(world_.allreduce(name, tensor.in, {.op = options_.reduce}));
        break;
      case Operation::kBroadcast:
        handles_.push_back(world_.broadcast(name, tensor.in, kRoot));
        break;
      case Operation::kAllgather:
        handles_.push_back(world_.allgather(name, tensor.in));
        break;
      case Operation::kReducescatter:
        handles_.push_back(world_.reducescatter(name, tensor.in, {.op = options_.reduce}));
        break;
      case Operation::kAlltoall:
        handles_.push_back(world_.alltoall(name, tensor.in));
        break;
      case Operation::kBarrier:
        handles_.push_back(world_.barrier(name));
        break;
    }
  }
  for (auto& handle : handles_) handle.wait();
}

double Bench::time_step(const std::vector<Tensor>& tensors, bool raw) {
  communicator_.barrier();
  const auto start = std::chrono::steady_clock::now();
  if (raw) {
    for (const auto& tensor : tensors) call_raw(tensor);
  } else {
    call_named(tensors);
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(end - start).count();
}

std::int64_t Bench::count_wrong(const Tensor& tensor, const TensorView& result, std::int64_t step) {
  const auto bytes = to_read(result);
  const auto at = phase(step, tensor.index);
  const std::int64_t own_block = world_.rank() * tensor.count;
  switch (options_.op) {
    case Operation::kAllreduce:
      return expected_.count_wrong(bytes, at);
    case Operation::kBroadcast:
      return inputs_[kRoot].count_wrong(bytes, at);
    case Operation::kReducescatter:
      if (bytes.size() != tensor.out.bytes()) return tensor.count;
      return expected_.count_wrong(bytes, at + own_block);
    case Operation::kAllgather:
    case Operation::kAlltoall: {
      const auto part = static_cast<std::size_t>(tensor.count) * size_of(options_.dtype);
      if (bytes.size() != part * inputs_.size()) return result.count();
      const std::int64_t begin = options_.op == Operation::kAlltoall ? own_block : 0;
      std::int64_t wrong = 0;
      for (std::size_t rank = 0; rank < inputs_.size(); ++rank) {
        wrong += inputs_[rank].count_wrong(bytes.subspan(rank * part, part), at + begin);
      }
      return wrong;
    }
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

std::int64_t Bench::count_wrong(const std::vector<Tensor>& tensors, std::int64_t step, bool raw) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool in_handle = has_blocks(options_.op) && !raw;
    wrong += count_wrong(tensors[i], in_handle ? handles_[i].output() : tensors[i].out, step);
  }
  return wrong;
}

Figures Bench::measure(const std::vector<std::int64_t>& counts, bool raw) {
  const auto tensors = lay_out(counts);
  if (device_ && raw) device_->start_plain(world_);
  std::vector<double> times;
  std::vector<std::int64_t> wrong{0};
  for (int step = 0; step < options_.warmup + options_.iters; ++step) {
    for (const auto& tensor : tensors) rewrite(tensor, step);
    const double time = time_step(tensors, raw);
    if (step >= options_.warmup) times.push_back(time);
    wrong[0] += count_wrong(tensors, step, raw);
  }
  Figures figures;
  if (raw) figures.algorithm = device_ ? "nccl" : communicator_.algorithm();
  communicator_.allreduce(view(times), ReduceOp::kMax);
  communicator_.allreduce(view(wrong), ReduceOp::kSum);
  figures.op = options_.op;
  for (const auto& tensor : tensors) {
    figures.total_bytes +=
        static_cast<std::int64_t>(std::max(tensor.in.bytes(), tensor.out.bytes()));
  }
  figures.tensors = static_cast<std::int64_t>(tensors.size());
  figures.count = std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) / figures.tensors;
  figures.bytes = figures.total_bytes / figures.tensors;
  figures.time_us = percentile(times, 0.5);
  figures.p99_us = percentile(times, 0.99);
  figures.wrong = wrong[0];
  figures.ranks = world_.size();
  figures.hosts = world_.host_count();
  const bool has_data = options_.op != Operation::kBarrier;
  figures.dtype = has_data ? to_string(options_.dtype) : "-";
  const bool reduces =
      options_.op == Operation::kAllreduce || options_.op == Operation::kReducescatter;
  figures.reduce = reduces ? to_string(options_.reduce) : "-";
  if (!raw) figures.algorithm = "named";
  figures.buffer = device_ ? "cuda" : options_.buffer == BufferKind::kAlloc ? "alloc" : "private";
  return figures;
}

}  // namespace hv::bench
