#include <immintrin.h>

#include "runtime/collective/reduce_vector.h"

namespace hv::runtime::simd {
namespace {

struct Avx2 {
  static constexpr std::size_t kBytes = 32;
  struct Half {
    static Vector<float, 8> widen(Vector<std::uint16_t, 8> raw) {
      return (Vector<float, 8>)_mm256_cvtph_ps((__m128i)raw);
    }
    static Vector<std::uint16_t, 8> narrow(Vector<float, 8> wide) {
      return (Vector<std::uint16_t, 8>)_mm256_cvtps_ph((__m256)wide, _MM_FROUND_TO_NEAREST_INT);
    }
  };
  struct BFloat : SoftBFloat16<8> {};
};

}  // namespace

const KernelTable& avx2_table() {
  static constexpr KernelTable table = make_table<Avx2>();
  return table;
}

}  // namespace hv::runtime::simd
