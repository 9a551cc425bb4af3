#include "runtime/stand_in.h"

#include <cstring>
#include <limits>
#include <memory>

#include "runtime/handle.h"

namespace hv::runtime {
namespace {

template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      return T{0};
    case ReduceOp::kProduct:
      return T{1};
    case ReduceOp::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  return T{0};
}

template <class T>
void fill(const TensorView& tensor, T value) {
  auto* to = static_cast<std::byte*>(tensor.data);
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    std::memcpy(to + i * sizeof value, &value, sizeof value);
}

void fill_neutral(const TensorView& tensor, ReduceOp op) {
  switch (tensor.dtype) {
    case DType::kUint8:
      return fill(tensor, neutral<std::uint8_t>(op));
    case DType::kInt8:
      return fill(tensor, neutral<std::int8_t>(op));
    case DType::kUint16:
      return fill(tensor, neutral<std::uint16_t>(op));
    case DType::kInt16:
      return fill(tensor, neutral<std::int16_t>(op));
    case DType::kInt32:
      return fill(tensor, neutral<std::int32_t>(op));
    case DType::kInt64:
      return fill(tensor, neutral<std::int64_t>(op));
    case DType::kUint32:
      return fill(tensor, neutral<std::uint32_t>(op));
    case DType::kUint64:
      return fill(tensor, neutral<std::uint64_t>(op));
    case DType::kFloat16:
      return fill(tensor, to_float16(neutral<float>(op)).bits);
    case DType::kBFloat16:
      return fill(tensor, to_bfloat16(neutral<float>(op)).bits);
    case DType::kFloat32:
      return fill(tensor, neutral<float>(op));
    case DType::kFloat64:
      return fill(tensor, neutral<double>(op));
    case DType::kBool:  // min and product are "and"
      return fill(tensor,
                  static_cast<std::uint8_t>(op == ReduceOp::kMin || op == ReduceOp::kProduct));
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return fill(tensor, std::uint8_t{0});
  }
}

base::Result<void> move_to(Gpu& gpu, Op& op) {
  auto memory = gpu.allocate(op.input.bytes());
  if (!memory) return base::fail(memory.error());
  TensorView there = op.input;
  there.data = memory->get();
  there.device = gpu.device();
  auto copied = gpu.copy(there.data, op.input.data, there.bytes(), nullptr);
  if (!copied) return copied;
  op.handle->set_output(there, std::move(*memory));
  op.input = op.output = there;
  return {};
}

}  // namespace

std::optional<base::Error> fill_stand_in(Op& op, const std::function<base::Result<Gpu*>()>& gpu) {
  const bool on_device = op.input.device >= 0;
  op.handle = std::make_shared<HandleState>(std::weak_ptr<Engine>(), now_ns());
  if (!has_data(op.kind)) return std::nullopt;
  if (auto error = op.handle->allocate_output(op.input.dtype, op.input.shape)) return error;
  op.input = op.output = op.handle->output();
  fill_neutral(op.input, op.reduce);
  if (!on_device) return std::nullopt;
  const auto moved = gpu().and_then([&](Gpu* to) { return move_to(*to, op); });
  if (!moved) return moved.error();
  return std::nullopt;
}

}  // namespace hv::runtime
