// Ring: one direction between two ranks of a host: a byte stream in shared memory, one writer, one
// reader.
//
// Thread: each end under the baton of its process. Memory belongs to the segment and is zero at
// first, which is an empty ring. Nothing fails: a full ring takes less, an empty one gives nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rendezvous/base/bytes.h"

namespace hv::runtime {

class Ring {
 public:
  static constexpr std::size_t kHeader = 192;  // three cache lines: written, read, starved
  explicit Ring(std::span<std::byte> memory);

  // Copies as much of `bytes` as fits and returns how much that was. After less than all the
  // reader will find writer_starves() once it has made room.
  std::size_t write(base::ByteSpan bytes);
  // Appends what is there to `to`.
  void read(base::Bytes& to);
  bool readable() const;
  // The reader asks after reading: does the writer wait for room? Clears the wish.
  bool take_starvation();

 private:
  using Counter = std::atomic_ref<std::uint64_t>;
  Counter counter(std::size_t line) const {
    return Counter(*reinterpret_cast<std::uint64_t*>(header_ + 64 * line));
  }
  Counter written() const { return counter(0); }
  Counter consumed() const { return counter(1); }
  Counter starved() const { return counter(2); }
  std::size_t put(base::ByteSpan bytes);

  std::byte* header_;
  std::span<std::byte> data_;
};

}  // namespace hv::runtime
