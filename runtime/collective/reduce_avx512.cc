#include <immintrin.h>

#include "runtime/collective/reduce_vector.h"

namespace hv::runtime::simd {
namespace {

// bfloat16 is rounded by integer arithmetic although AVX512_BF16 has an instruction: that one
// flushes subnormal numbers, so results would differ between machines.
struct Avx512 {
  static constexpr std::size_t kBytes = 64;
  struct Half {
    static constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns inside the unmasked forms
    static Vector<float, 16> widen(Vector<std::uint16_t, 16> raw) {
      return (Vector<float, 16>)_mm512_maskz_cvtph_ps(kAll, (__m256i)raw);
    }
    static Vector<std::uint16_t, 16> narrow(Vector<float, 16> wide) {
      return (Vector<std::uint16_t, 16>)_mm512_maskz_cvtps_ph(kAll, (__m512)wide,
                                                              _MM_FROUND_TO_NEAREST_INT);
    }
  };
  struct BFloat : SoftBFloat16<16> {};
};

}  // namespace

const KernelTable& avx512_table() {
  static constexpr KernelTable table = make_table<Avx512>();
  return table;
}

}  // namespace hv::runtime::simd
