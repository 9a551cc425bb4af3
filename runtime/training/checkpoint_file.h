// The file behind hv::Checkpoints: layout, checksum, and safe writing. No communication; any
// thread.
//
//   magic "HVCKPT\r\n" · u32 version · u32 0 · u64 header bytes · u64 file bytes
//   header: i64 epoch · i64 step · u32 n × (text key, text value) · u32 n × tensor
//     tensor: text name · u8 dtype · u32 n × i64 dimension
//   the tensors' elements, one after the other, in the header's order
//   u64 CRC-64/XZ of all before it
// Little endian; text is u32 bytes and then these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hv/checkpoint.h"
#include "rendezvous/base/bytes.h"
#include "rendezvous/base/result.h"

namespace hv::runtime {

// Writes beside `path`, flushes, renames, flushes the directory. On an error nothing is left of
// the new file and `path` is as before.
base::Result<void> write_checkpoint(const std::filesystem::path& path,
                                    const std::vector<NamedTensor>& tensors,
                                    const TrainingState& state);

// Reads the file whole and checks all of it before it changes the tensors.
base::Result<TrainingState> read_checkpoint(const std::filesystem::path& path,
                                            const std::vector<NamedTensor>& tensors);

std::uint64_t crc64(base::ByteSpan bytes, std::uint64_t before = 0);

}  // namespace hv::runtime
