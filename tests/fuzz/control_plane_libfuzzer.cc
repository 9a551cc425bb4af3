// libFuzzer's entry: the first byte picks the target.
#include "tests/fuzz/control_plane_fuzz.h"

// NOLINTNEXTLINE: libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hv::tests;
  constexpr void (*kTargets[])(FuzzInput) = {fuzz_frames, fuzz_messages, fuzz_store,
                                             fuzz_strangers};
  if (size == 0) return 0;
  kTargets[data[0] % 4]({reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
