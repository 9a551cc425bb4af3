#include "hv/types.h"

#include <bit>

namespace hv {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return 1;
    case DType::kUint16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kUint16:
      return "uint16";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBool:
      return "bool";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kUint32:
      return "uint32";
    case DType::kUint64:
      return "uint64";
    case DType::kFloat8E4M3:
      return "float8_e4m3";
    case DType::kFloat8E5M2:
      return "float8_e5m2";
  }
  return "unknown";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAdasum:
      return "adasum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

// The conversions use no subnormal binary32 values, so they do not depend on the caller's
// flush-to-zero mode, and agree bit for bit with the F16C instructions, NaN payloads included.
Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t abs = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (abs > 0x7f800000u) {  // NaN: quiet, upper payload bits kept
    half = 0x7e00u | ((abs >> 13) & 0x3ffu);
  } else if (abs >= 0x47800000u) {  // 65536 and above
    half = 0x7c00u;
  } else if (abs < 0x38800000u) {  // below 2^-14: the addition rounds at the place of a subnormal
    constexpr std::uint32_t kMagic = 126u << 23;
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(abs) + std::bit_cast<float>(kMagic)) -
           kMagic;
  } else {
    half = (abs - (112u << 23) + 0xfffu + ((abs >> 13) & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(half | sign)};
}

BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t abs = value.bits & 0x7fffu;
  std::uint32_t bits = (abs << 13) + (112u << 23);
  if (abs > 0x7c00u) {
    bits = (abs << 13) | 0x7fc00000u;
  } else if (abs == 0x7c00u) {
    bits = 0x7f800000u;
  } else if (abs < 0x400u) {
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + (1u << 23)) -
                                        std::bit_cast<float>(113u << 23));
  }
  return std::bit_cast<float>(bits | sign);
}

float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (auto dimension : shape) count *= dimension;
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace hv
