// Fuzz targets of the control plane: each takes any bytes and aborts where a promise is broken.
// Used by the corpus test everywhere, and by libFuzzer where the compiler has it (HV_FUZZ).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hv::tests {

using FuzzInput = std::span<const std::byte>;

// The frame decoder, fed in pieces: the same frames as in one piece, and never more bytes out than
// went in.
void fuzz_frames(FuzzInput input);
// Every message: what decodes encodes to the same bytes.
void fuzz_messages(FuzzInput input);
// The store's brain, driven by frames from several clients: it answers or drops, and stays sane.
void fuzz_store(FuzzInput input);
// The two handshakes and what a launcher's environment may hold.
void fuzz_strangers(FuzzInput input);

}  // namespace hv::tests
