#include "runtime/collective/slots.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace hv::runtime {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

base::Result<Slots> Slots::open(std::shared_ptr<LocalGroup> group, const Options& options,
                                base::Deadline deadline) {
  static_assert(sizeof(std::atomic<std::uint64_t>) == 8 &&
                std::atomic<std::uint64_t>::is_always_lock_free);
  Slots s;
  s.members_ = options.members;
  s.size_ = static_cast<int>(options.members.size());
  const auto self = std::find(s.members_.begin(), s.members_.end(), group->rank());
  s.rank_ = self == s.members_.end() ? -1 : static_cast<int>(self - s.members_.begin());
  s.slots_ = options.slots;
  s.wake_ = options.wake;
  s.slot_bytes_ = round_up(options.slot_bytes, kPage);
  const auto slots = static_cast<std::size_t>(options.slots);
  s.data_offset_ = round_up(sizeof(Sleeper) + sizeof(Flags) * slots, kPage);
  auto segment = group->segment(options.key, s.data_offset_ + s.slot_bytes_ * slots, deadline);
  if (!segment) return base::fail(segment.error());
  s.group_ = std::move(group);
  s.segment_ = std::move(*segment);
  for (int local : s.members_) s.bases_.push_back(s.segment_.part(local).data());
  // Zeroed memory is a valid initial state of all flags, whoever looks first.
  return s;
}

bool Slots::free(std::uint64_t chunk) {
  const auto slots = static_cast<std::uint64_t>(slots_);
  if (chunk < slots || chunk - slots < done_below_) return true;
  const std::uint64_t last_use = chunk - slots + 1;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && !at_least(flags(r, chunk).progress.done, last_use)) return false;
  }
  return true;
}

void Slots::publish_arrival(std::uint64_t chunk, std::uint64_t signature, std::uint64_t place) {
  auto& mine = arrival(rank_, chunk);
  mine.signature = signature;
  mine.place = place;
  mine.generation.store(chunk + 1, std::memory_order_seq_cst);
  wake_peers();
}

void Slots::publish_reduced(std::uint64_t chunk) {
  flags(rank_, chunk).progress.reduced.store(chunk + 1, std::memory_order_seq_cst);
  wake_peers();
}

void Slots::publish_done(std::uint64_t chunk) {
  flags(rank_, chunk).progress.done.store(chunk + 1, std::memory_order_seq_cst);
  wake_peers();
}

void Slots::wake_peers() {
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    if (wake_ == Wake::kDoorbell) {
      group_->ring(members_[r]);
    } else if (auto& word = sleeper(r).asleep; word.load(std::memory_order_seq_cst) != 0) {
      word.store(0, std::memory_order_seq_cst);
      ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }
}

void Slots::announce_sleep() { sleeper(rank_).asleep.store(1, std::memory_order_seq_cst); }

void Slots::wait_announced(std::chrono::microseconds time) {
  const timespec limit{time.count() / 1000000, time.count() % 1000000 * 1000};
  ::syscall(SYS_futex, &sleeper(rank_).asleep, FUTEX_WAIT, 1, &limit, nullptr, 0);
}

void Slots::end_sleep() { sleeper(rank_).asleep.store(0, std::memory_order_seq_cst); }

}  // namespace hv::runtime
