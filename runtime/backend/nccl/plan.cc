#include "runtime/backend/nccl/plan.h"

#include <algorithm>

#include "runtime/backend/nccl/kernels.h"

namespace hv::runtime::nccl {
namespace {

// From here on a tensor is not worth two more trips through memory to run with others.
constexpr std::size_t kDirect = std::size_t{16} << 20;

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data); }

std::optional<int> type_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool:
      return kNcclUint8;
    case DType::kInt8:
      return kNcclInt8;
    case DType::kInt32:
      return kNcclInt32;
    case DType::kInt64:
      return kNcclInt64;
    case DType::kUint32:
      return kNcclUint32;
    case DType::kUint64:
      return kNcclUint64;
    case DType::kFloat16:
      return kNcclFloat16;
    case DType::kFloat32:
      return kNcclFloat32;
    case DType::kFloat64:
      return kNcclFloat64;
    case DType::kBFloat16:
      return kNcclBfloat16;
    case DType::kFloat8E4M3:
      return kNcclFloat8e4m3;
    case DType::kFloat8E5M2:
      return kNcclFloat8e5m2;
    case DType::kUint16:
    case DType::kInt16:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<int> op_of(ReduceOp op, bool truth) {
  switch (op) {
    case ReduceOp::kSum:  // of truth values: or
      return truth ? kNcclMax : kNcclSum;
    case ReduceOp::kProduct:  // and
      return truth ? kNcclMin : kNcclProd;
    case ReduceOp::kMin:
      return kNcclMin;
    case ReduceOp::kMax:
      return kNcclMax;
    case ReduceOp::kAverage:
      return truth ? std::nullopt : std::optional<int>(kNcclAvg);
    case ReduceOp::kAdasum:
      return std::nullopt;
  }
  return std::nullopt;
}

bool is_scaled(const Batch& batch) { return batch.prescale != 1.0 || batch.postscale != 1.0; }

bool adds(const Batch& batch) {
  return batch.reduce == ReduceOp::kSum || batch.reduce == ReduceOp::kAverage;
}

// The kernel that scales elements of a type; null: there is none.
const char* scaling_kernel(DType dtype) {
  if (dtype == DType::kFloat16) return "hv_move_f16";
  if (dtype == DType::kBFloat16) return "hv_move_bf16";
  if (dtype == DType::kFloat32) return "hv_move_f32";
  return dtype == DType::kFloat64 ? "hv_move_f64" : nullptr;
}

std::size_t row_bytes(const Op& op) {
  const std::int64_t rows = op.input.shape[0];
  return rows == 0 ? 0 : op.input.bytes() / static_cast<std::size_t>(rows);
}

// How an allreduce travels.
struct Wire {
  int type;
  std::size_t size;  // bytes of an element on the way
  const char* kernel;
  bool changes;  // packing is not only copying
};
Wire wire_of(const Batch& batch, const std::string& compression) {
  const bool small = batch.dtype == DType::kFloat32 && adds(batch) && !compression.empty();
  if (small && compression == "fp16") return {kNcclFloat16, 2, "hv_move_f32_f16", true};
  if (small) return {kNcclBfloat16, 2, "hv_move_f32_bf16", true};
  const int type = type_of(batch.dtype).value_or(kNcclUint8);
  const std::size_t size = size_of(batch.dtype);
  if (is_scaled(batch)) return {type, size, scaling_kernel(batch.dtype), true};
  return {type, size, "hv_move_bytes", false};
}

// Fills the buffer trip by trip.
class Packer {
 public:
  Packer(const Batch& batch, Wire wire, int op, const PlanOptions& options)
      : batch_(batch), wire_(wire), op_(op), options_(options) {}

  void add(const Op& op) {
    const std::size_t element = size_of(batch_.dtype);
    const auto count = static_cast<std::size_t>(op.input.count());
    for (std::size_t at = 0; at < count;) {
      if (steps_.empty() || options_.buffer_bytes - used_ < kPlace) begin();
      const std::size_t n = std::min(count - at, (options_.buffer_bytes - used_) / wire_.size);
      const std::size_t units = wire_.changes ? n : n * element;
      Step& step = steps_.back();
      step.pack.push_back({bytes_of(op.input) + at * element, units, used_});
      step.unpack.push_back({bytes_of(op.output) + at * element, units, used_});
      used_ += (n * wire_.size + kPlace - 1) / kPlace * kPlace;
      at += n;
    }
  }
  void add_direct(const Op& op) {
    direct_.push_back({Call::Kind::kAllReduce, bytes_of(op.input), bytes_of(op.output),
                       static_cast<std::size_t>(op.input.count()), wire_.type, op_});
  }
  std::vector<Step> finish() {
    end();
    if (direct_.empty()) return std::move(steps_);
    if (steps_.empty()) steps_.emplace_back();
    auto& calls = steps_.front().calls;
    calls.insert(calls.begin(), direct_.begin(), direct_.end());
    return std::move(steps_);
  }

 private:
  void begin() {
    end();
    Step& step = steps_.emplace_back();
    step.kernel = wire_.kernel;
    step.element = wire_.changes ? size_of(batch_.dtype) : 1;
    step.base = options_.buffer;
    step.prescale = batch_.prescale;
    step.postscale = batch_.postscale;
  }
  void end() {
    if (used_ > 0) {
      steps_.back().calls.push_back({Call::Kind::kAllReduce, options_.buffer, options_.buffer,
                                     used_ / wire_.size, wire_.type, op_});
    }
    used_ = 0;
  }

  const Batch& batch_;
  const Wire wire_;
  const int op_;
  const PlanOptions& options_;
  std::size_t used_ = 0;
  std::vector<Step> steps_;
  std::vector<Call> direct_;
};

std::vector<Step> allreduce(const Batch& batch, const PlanOptions& options) {
  const Wire wire = wire_of(batch, options.compression);
  Packer packer(batch, wire, *op_of(batch.reduce, batch.dtype == DType::kBool), options);
  const auto is_small = [&](const Op& op) { return op.input.bytes() < kDirect; };
  const bool alone = std::count_if(batch.ops.begin(), batch.ops.end(), is_small) == 1;
  for (const Op& op : batch.ops) {
    if (op.input.bytes() == 0) continue;
    if (wire.changes || (is_small(op) && !alone)) {
      packer.add(op);
    } else {
      packer.add_direct(op);
    }
  }
  return packer.finish();
}

void add_broadcasts(Step& step, const Batch& batch, const std::vector<int>& ranks) {
  const auto root = std::lower_bound(ranks.begin(), ranks.end(), batch.root) - ranks.begin();
  for (const Op& op : batch.ops) {
    step.calls.push_back({Call::Kind::kBroadcast, bytes_of(op.input), bytes_of(op.output),
                          op.output.bytes(), kNcclUint8, kNcclSum, static_cast<int>(root)});
  }
}

void add_allgather(Step& step, const Op& op, const std::vector<std::int64_t>& counts, int index,
                   std::size_t element) {
  const bool even = std::all_of(counts.begin(), counts.end(),
                                [&](std::int64_t count) { return count == counts.front(); });
  if (even) {
    step.calls.push_back({Call::Kind::kAllGather, bytes_of(op.input), bytes_of(op.output),
                          op.input.bytes(), kNcclUint8});
    return;
  }
  std::byte* to = bytes_of(op.output);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::size_t bytes = static_cast<std::size_t>(counts[rank]) * element;
    const bool mine = static_cast<int>(rank) == index;
    step.calls.push_back({Call::Kind::kBroadcast, mine ? bytes_of(op.input) : to, to, bytes,
                          kNcclUint8, kNcclSum, static_cast<int>(rank)});
    to += bytes;
  }
}

void add_alltoall(Step& step, const Batch& batch, std::size_t ranks, std::size_t index) {
  const Op& op = batch.ops.front();
  const auto& counts = batch.counts.front();
  const std::byte* from = bytes_of(op.input);
  std::byte* to = bytes_of(op.output);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const auto peer_rank = static_cast<int>(peer);
    const auto out = static_cast<std::size_t>(counts[index * ranks + peer]) * size_of(batch.dtype);
    const auto in = static_cast<std::size_t>(counts[peer * ranks + index]) * size_of(batch.dtype);
    step.calls.push_back({Call::Kind::kSend, from, nullptr, out, kNcclUint8, kNcclSum, peer_rank});
    step.calls.push_back({Call::Kind::kRecv, nullptr, to, in, kNcclUint8, kNcclSum, peer_rank});
    from += out;
    to += in;
  }
}

void add_reducescatter(Step& step, const Op& op, const Batch& batch, int ranks) {
  const int type = *type_of(batch.dtype);
  const int reduce = *op_of(batch.reduce, batch.dtype == DType::kBool);
  const std::int64_t rows = op.input.shape[0];
  const std::size_t row = row_bytes(op), element = size_of(batch.dtype);
  if (rows % ranks == 0) {
    step.calls.push_back({Call::Kind::kReduceScatter, bytes_of(op.input), bytes_of(op.output),
                          op.output.bytes() / element, type, reduce});
    return;
  }
  const std::byte* from = bytes_of(op.input);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto bytes = row * static_cast<std::size_t>(share_of_rows(rows, rank, ranks));
    step.calls.push_back(
        {Call::Kind::kReduce, from, bytes_of(op.output), bytes / element, type, reduce, rank});
    from += bytes;
  }
}

// The results lie where they belong and are scaled there.
std::vector<Step> reducescatter(const Batch& batch, int ranks) {
  std::vector<Step> steps(1);
  for (const Op& op : batch.ops) add_reducescatter(steps.front(), op, batch, ranks);
  if (!is_scaled(batch)) return steps;
  for (const Op& op : batch.ops) {
    if (op.output.bytes() == 0) continue;
    Step& step = steps.emplace_back();
    step.kernel = scaling_kernel(batch.dtype);
    step.element = size_of(batch.dtype);
    step.base = bytes_of(op.output);
    step.postscale = batch.prescale * batch.postscale;
    step.unpack.push_back({bytes_of(op.output), static_cast<std::size_t>(op.output.count()), 0});
  }
  return steps;
}

}  // namespace

std::optional<Reduction> reduction_of(const Batch& batch, int nccl_version) {
  const auto type = type_of(batch.dtype);
  const auto op = op_of(batch.reduce, batch.dtype == DType::kBool);
  if (!type || !op) return std::nullopt;
  const bool float8 = *type == kNcclFloat8e4m3 || *type == kNcclFloat8e5m2;
  if (float8 && nccl_version < kNcclFloat8Since) return std::nullopt;
  if (is_scaled(batch)) {
    if (!scaling_kernel(batch.dtype)) return std::nullopt;
    if (batch.kind == OpKind::kReducescatter && !adds(batch)) return std::nullopt;
  }
  return Reduction{*type, *op};
}

std::vector<Step> make_steps(const Batch& batch, const std::vector<int>& ranks, int index,
                             const PlanOptions& options) {
  std::vector<Step> steps(1);
  Step& step = steps.front();
  switch (batch.kind) {
    case OpKind::kAllreduce:
      steps = allreduce(batch, options);
      break;
    case OpKind::kBroadcast:
      add_broadcasts(step, batch, ranks);
      break;
    case OpKind::kAllgather:
      for (std::size_t i = 0; i < batch.ops.size(); ++i) {
        add_allgather(step, batch.ops[i], batch.counts[i], index, size_of(batch.dtype));
      }
      break;
    case OpKind::kAlltoall:
      add_alltoall(step, batch, ranks.size(), static_cast<std::size_t>(index));
      break;
    case OpKind::kReducescatter:
      steps = reducescatter(batch, static_cast<int>(ranks.size()));
      break;
    case OpKind::kBarrier:
    case OpKind::kJoin:
    case OpKind::kAddSet:
    case OpKind::kRemoveSet:
      break;
  }
  for (Step& one : steps)
    std::erase_if(one.calls, [](const Call& call) { return call.count == 0; });
  return steps;
}

}  // namespace hv::runtime::nccl
