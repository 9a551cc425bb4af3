#include "runtime/transport/inproc_local_group.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "rendezvous/base/fd.h"

namespace hv::runtime {
namespace {

using base::Code;
using base::Error;
using base::Result;

constexpr std::size_t kPage = 4096;

struct alignas(64) Sleeper {
  std::atomic<bool> asleep{false};
  base::UniqueFd bell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

// What the threads share. Freed with the last group.
struct Shared {
  explicit Shared(int n) : sleepers(static_cast<std::size_t>(n)) {}
  std::vector<Sleeper> sleepers;
  std::mutex mutex;
  struct Entry {
    Segment segment;
    int asked = 0;
  };
  std::map<std::string, Entry, std::less<>> segments;
};

std::shared_ptr<std::byte> zeroed_pages(std::size_t bytes) {
  auto* memory =
      static_cast<std::byte*>(::operator new (std::max(bytes, kPage), std::align_val_t{kPage}));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* p) { ::operator delete (p, std::align_val_t{kPage}); }};
}

class InprocLocalGroup final : public LocalGroup {
 public:
  InprocLocalGroup(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->sleepers.size()); }

  Result<Segment> segment(std::string_view key, std::size_t part_bytes, base::Deadline) override {
    part_bytes = (part_bytes + kPage - 1) / kPage * kPage;
    std::scoped_lock lock(shared_->mutex);
    auto [it, made] = shared_->segments.try_emplace(std::string(key));
    auto& entry = it->second;
    if (made) {
      entry.segment = Segment(zeroed_pages(part_bytes * shared_->sleepers.size()), part_bytes,
                              static_cast<int>(shared_->sleepers.size()));
    }
    if (entry.segment.part_bytes() != part_bytes) {
      return base::fail(Code::kMismatch, "shared segment " + std::string(key) +
                                             ": one rank asks for " + std::to_string(part_bytes) +
                                             " bytes, another for " +
                                             std::to_string(entry.segment.part_bytes()));
    }
    Segment segment = entry.segment;
    if (++entry.asked == size()) shared_->segments.erase(it);
    return segment;
  }

  void ring(int local_rank) override {
    auto& sleeper = shared_->sleepers[local_rank];
    if (!sleeper.asleep.load(std::memory_order_seq_cst)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(sleeper.bell.get(), &one, sizeof one);
  }
  int doorbell() const override { return shared_->sleepers[rank_].bell.get(); }
  void about_to_sleep() override {
    shared_->sleepers[rank_].asleep.store(true, std::memory_order_seq_cst);
  }
  void woke_up() override {
    auto& self = shared_->sleepers[rank_];
    self.asleep.store(false, std::memory_order_seq_cst);
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = ::read(self.bell.get(), &count, sizeof count);
  }

  bool crowded() const override {
    return static_cast<unsigned>(size()) > std::thread::hardware_concurrency();
  }
  const Error* failure() const override { return failure_.load(std::memory_order_acquire); }
  void abort(const Error& why) override {
    std::scoped_lock lock(abort_mutex_);
    if (failure()) return;
    reason_ = std::make_unique<Error>(why);
    failure_.store(reason_.get(), std::memory_order_release);
    ring(rank_);
  }
  void look_for_losses() override {}

 private:
  std::shared_ptr<Shared> shared_;
  int rank_;
  std::mutex abort_mutex_;
  std::unique_ptr<Error> reason_;
  std::atomic<const Error*> failure_{nullptr};
};

}  // namespace

std::vector<std::shared_ptr<LocalGroup>> make_inproc_local_groups(int size) {
  auto shared = std::make_shared<Shared>(size);
  std::vector<std::shared_ptr<LocalGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    groups.push_back(std::make_shared<InprocLocalGroup>(shared, rank));
  }
  return groups;
}

}  // namespace hv::runtime
