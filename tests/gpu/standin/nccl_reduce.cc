#include <cstring>
#include <type_traits>

#include "hv/types.h"
#include "tests/gpu/standin/nccl.h"

namespace standin {
namespace {

using namespace hv::runtime::nccl;

template <class T>
struct Plain {
  using Compute = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Half {
  using Compute = float;
  static float load(std::uint16_t bits) { return hv::to_float(hv::Float16{bits}); }
  static std::uint16_t store(float value) { return hv::to_float16(value).bits; }
};
struct Brain {
  using Compute = float;
  static float load(std::uint16_t bits) { return hv::to_float(hv::BFloat16{bits}); }
  static std::uint16_t store(float value) { return hv::to_bfloat16(value).bits; }
};

template <class C>
C apply(int op, C a, C b) {
  // Integers wrap.
  using Sum = std::conditional_t<std::is_integral_v<C>, std::uint64_t, C>;
  switch (op) {
    case kNcclProd:
      return static_cast<C>(static_cast<Sum>(a) * static_cast<Sum>(b));
    case kNcclMax:
      return a < b ? b : a;
    case kNcclMin:
      return b < a ? b : a;
    default:
      return static_cast<C>(static_cast<Sum>(a) + static_cast<Sum>(b));
  }
}

template <class Stored, class As>
void run(int op, const std::vector<const std::byte*>& inputs, std::byte* out, std::size_t count) {
  using C = typename As::Compute;
  const auto element = [](const std::byte* from, std::size_t i) {
    Stored stored;
    std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
    return As::load(stored);
  };
  for (std::size_t i = 0; i < count; ++i) {
    C value = element(inputs.front(), i);
    for (std::size_t k = 1; k < inputs.size(); ++k)
      value = apply<C>(op, value, element(inputs[k], i));
    if (op == kNcclAvg) value = static_cast<C>(value / static_cast<C>(inputs.size()));
    const Stored stored = As::store(value);
    std::memcpy(out + i * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

std::size_t size_of(int type) {
  switch (type) {
    case kNcclInt32:
    case kNcclUint32:
    case kNcclFloat32:
      return 4;
    case kNcclInt64:
    case kNcclUint64:
    case kNcclFloat64:
      return 8;
    case kNcclFloat16:
    case kNcclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void reduce(int type, int op, const std::vector<const std::byte*>& inputs, std::byte* out,
            std::size_t count) {
  switch (type) {
    case kNcclInt8:
      return run<std::int8_t, Plain<std::int8_t>>(op, inputs, out, count);
    case kNcclUint8:
      return run<std::uint8_t, Plain<std::uint8_t>>(op, inputs, out, count);
    case kNcclInt32:
      return run<std::int32_t, Plain<std::int32_t>>(op, inputs, out, count);
    case kNcclUint32:
      return run<std::uint32_t, Plain<std::uint32_t>>(op, inputs, out, count);
    case kNcclInt64:
      return run<std::int64_t, Plain<std::int64_t>>(op, inputs, out, count);
    case kNcclUint64:
      return run<std::uint64_t, Plain<std::uint64_t>>(op, inputs, out, count);
    case kNcclFloat16:
      return run<std::uint16_t, Half>(op, inputs, out, count);
    case kNcclBfloat16:
      return run<std::uint16_t, Brain>(op, inputs, out, count);
    case kNcclFloat32:
      return run<float, Plain<float>>(op, inputs, out, count);
    case kNcclFloat64:
      return run<double, Plain<double>>(op, inputs, out, count);
    default:
      break;
  }
}

}  // namespace standin
