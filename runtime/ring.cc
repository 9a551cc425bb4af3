#include "runtime/ring.h"

#include <algorithm>
#include <cstring>

namespace hv::runtime {

Ring::Ring(std::span<std::byte> memory) : header_(memory.data()), data_(memory.subspan(kHeader)) {}

std::size_t Ring::write(base::ByteSpan bytes) {
  std::size_t done = put(bytes);
  if (done < bytes.size()) {
    // Publish the wish, then look again: either the reader sees it, or we see the reader's room.
    starved().store(1, std::memory_order_seq_cst);
    done += put(bytes.subspan(done));
  }
  return done;
}

std::size_t Ring::put(base::ByteSpan bytes) {
  const std::uint64_t head = written().load(std::memory_order_relaxed);
  const std::uint64_t tail = consumed().load(std::memory_order_seq_cst);
  const std::size_t n = std::min<std::size_t>(bytes.size(), data_.size() - (head - tail));
  const std::size_t at = head % data_.size();
  const std::size_t first = std::min(n, data_.size() - at);
  std::copy_n(bytes.data(), first, data_.data() + at);
  std::copy_n(bytes.data() + first, n - first, data_.data());
  written().store(head + n, std::memory_order_seq_cst);  // pairs with the reader about to sleep
  return n;
}

bool Ring::readable() const {
  return written().load(std::memory_order_seq_cst) != consumed().load(std::memory_order_relaxed);
}

void Ring::read(base::Bytes& to) {
  const std::uint64_t tail = consumed().load(std::memory_order_relaxed);
  const std::size_t n = written().load(std::memory_order_acquire) - tail;
  const std::size_t at = tail % data_.size();
  const std::size_t first = std::min(n, data_.size() - at);
  to.insert(to.end(), data_.begin() + at, data_.begin() + at + first);
  to.insert(to.end(), data_.begin(), data_.begin() + (n - first));
  consumed().store(tail + n, std::memory_order_seq_cst);
}

bool Ring::take_starvation() {
  return starved().load(std::memory_order_seq_cst) != 0 &&
         starved().exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace hv::runtime
