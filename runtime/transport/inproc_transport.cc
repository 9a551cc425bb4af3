#include "runtime/transport/inproc_transport.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"

namespace hv::runtime {

using base::Code;
using base::Error;

// Purpose: matches sends with receives and copies. Thread: any; one lock around everything.
// Owner: the transports made from it. Failure: a rank that has aborted or gone fails what others
// have pending with it, as the end of a connection would.
class InprocHub {
 public:
  explicit InprocHub(int size) : ranks_(size) {
    for (auto& r : ranks_) r.bell.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  int bell(int rank) const { return ranks_[rank].bell.get(); }

  void send(int from, int to, Tag tag, std::span<const std::byte> lent, Pending& pending) {
    std::scoped_lock lock(mutex_);
    if (const Error* why = refusal(from, to)) return finish(from, pending, why);
    for (auto it = receives_.begin(); it != receives_.end(); ++it) {
      if (it->owner == to && it->peer == from && it->tag == tag) {
        match(it->lent, it->owner, *it->pending, lent, from, pending);
        receives_.erase(it);
        return;
      }
    }
    sends_.push_back({from, to, tag, lent, &pending});
  }

  void recv(int to, int from, Tag tag, std::span<std::byte> lent, Pending& pending) {
    std::scoped_lock lock(mutex_);
    for (auto it = sends_.begin(); it != sends_.end(); ++it) {
      if (it->owner == from && it->peer == to && it->tag == tag) {
        match(lent, to, pending, it->lent, from, *it->pending);
        sends_.erase(it);
        return;
      }
    }
    if (const Error* why = refusal(to, from)) return finish(to, pending, why);
    receives_.push_back({to, from, tag, lent, &pending});
  }

  bool collect(int rank) {
    std::scoped_lock lock(mutex_);
    auto& self = ranks_[rank];
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = ::read(self.bell.get(), &count, sizeof count);
    for (auto& f : self.finished) {
      f.pending->left -= 1;
      if (f.error && !f.pending->error) f.pending->error = f.error;
    }
    return !std::exchange(self.finished, {}).empty();
  }

  // Fails what `rank` has pending with `own`, what others have pending with it with `others`.
  void leave(int rank, const Error& own, const Error& others) {
    std::scoped_lock lock(mutex_);
    auto& self = ranks_[rank];
    if (self.own_error) return;
    self.own_error = own;
    self.others_error = others;
    auto fail_all = [&](auto& list) {
      std::erase_if(list, [&](const auto& m) {
        if (m.owner == rank) finish(rank, *m.pending, &*self.own_error);
        if (m.owner != rank && m.peer == rank) finish(m.owner, *m.pending, &*self.others_error);
        return m.owner == rank || m.peer == rank;
      });
    };
    fail_all(sends_);
    fail_all(receives_);
  }

 private:
  template <class Span>
  struct Message {
    int owner, peer;
    Tag tag;
    Span lent;
    Pending* pending;
  };
  struct Finished {
    Pending* pending;
    const Error* error;
  };
  struct Rank {
    base::UniqueFd bell;
    std::vector<Finished> finished;
    std::optional<Error> own_error, others_error;
  };

  const Error* refusal(int self, int peer) const {
    if (ranks_[self].own_error) return &*ranks_[self].own_error;
    if (ranks_[peer].others_error) return &*ranks_[peer].others_error;
    return nullptr;
  }
  void finish(int rank, Pending& pending, const Error* error) {
    ranks_[rank].finished.push_back({&pending, error});
    const std::uint64_t one = 1;
    [[maybe_unused]] auto n = ::write(ranks_[rank].bell.get(), &one, sizeof one);
  }
  void match(std::span<std::byte> to, int receiver, Pending& received,
             std::span<const std::byte> from, int sender, Pending& sent) {
    const Error* error = nullptr;
    if (to.size() != from.size()) {
      errors_.push_back({Code::kMismatch,
                         "rank " + std::to_string(sender) + " sent " + std::to_string(from.size()) +
                             " bytes where " + std::to_string(to.size()) + " were expected",
                         {},
                         0});
      error = &errors_.back();
    } else if (!to.empty()) {
      std::memcpy(to.data(), from.data(), to.size());
    }
    finish(receiver, received, error);
    finish(sender, sent, nullptr);
  }

  std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::deque<Message<std::span<const std::byte>>> sends_;
  std::deque<Message<std::span<std::byte>>> receives_;
  std::deque<Error> errors_;
};

namespace {

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~InprocTransport() override {
    abort({Code::kShutdown, "the transport has been closed", {}, 0});
    hub_->collect(rank_);
  }
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  void send(int to, Tag tag, std::span<const std::byte> lent, Pending& pending) override {
    pending.left += 1;
    hub_->send(rank_, to, tag, lent, pending);
  }
  void recv(int from, Tag tag, std::span<std::byte> lent, Pending& pending) override {
    pending.left += 1;
    hub_->recv(rank_, from, tag, lent, pending);
  }
  bool progress(base::Deadline deadline) override {
    if (hub_->collect(rank_)) return true;
    if (deadline.passed()) return false;
    pollfd bell{hub_->bell(rank_), POLLIN, 0};
    ::poll(&bell, 1, deadline.poll_ms());
    return hub_->collect(rank_);
  }
  int wait_fd() const override { return hub_->bell(rank_); }
  void abort(const Error& why) override {
    hub_->leave(rank_, why,
                {Code::kPeerLost, "rank " + std::to_string(rank_) + " has left", {}, 0});
  }

 private:
  std::shared_ptr<InprocHub> hub_;
  int rank_;
};

}  // namespace

std::shared_ptr<InprocHub> make_inproc_hub(int size) { return std::make_shared<InprocHub>(size); }

std::unique_ptr<Transport> make_inproc_transport(std::shared_ptr<InprocHub> hub, int rank) {
  return std::make_unique<InprocTransport>(std::move(hub), rank);
}

}  // namespace hv::runtime
