#include "hv/compression.h"

#include "hv/error.h"
#include "runtime/training/floats.h"

namespace hv {

namespace {

std::uint16_t to_bits(float value, Compression kind) {
  return kind == Compression::kBFloat16 ? to_bfloat16(value).bits : to_float16(value).bits;
}

float from_bits(std::uint16_t bits, Compression kind) {
  return kind == Compression::kBFloat16 ? to_float(BFloat16{bits}) : to_float(Float16{bits});
}

}  // namespace

CompressedTensor::CompressedTensor(Shape shape, Compression kind)
    : shape_(std::move(shape)),
      kind_(kind),
      bits_(static_cast<std::size_t>(element_count(shape_))) {
  if (kind == Compression::kNone) {
    throw Error(ErrorCode::kInvalidArgument, "CompressedTensor: without compression there is none");
  }
}

void CompressedTensor::check(const char* call, const TensorView& tensor) const {
  if (runtime::is_trainable(tensor) && tensor.count() == element_count(shape_)) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string("CompressedTensor::") + call +
                  ": takes float32 or float64 in host memory, of " + to_string(shape_) + ", not " +
                  std::string(to_string(tensor.dtype)) + " of " + to_string(tensor.shape) +
                  (tensor.device < 0 ? "" : " on device " + std::to_string(tensor.device)));
}

void CompressedTensor::pack(const TensorView& from, double divisor) {
  check("pack", from);
  runtime::with_type_of(from, [&]<class T>(T) {
    const auto by = static_cast<T>(divisor);
    auto next = bits_.begin();
    for (const T& value : runtime::elements<T>(from)) {
      *next++ = to_bits(static_cast<float>(value / by), kind_);
    }
  });
}

void CompressedTensor::unpack(const TensorView& into) const {
  check("unpack", into);
  runtime::with_type_of(into, [&]<class T>(T) {
    auto next = bits_.begin();
    for (T& value : runtime::elements<T>(into)) value = static_cast<T>(from_bits(*next++, kind_));
  });
}

TensorView CompressedTensor::view() {
  const bool brain = kind_ == Compression::kBFloat16;
  return {bits_.data(), brain ? DType::kBFloat16 : DType::kFloat16, shape_, -1};
}

}  // namespace hv
