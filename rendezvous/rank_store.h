// What client store and local store have in common: calls that wait for their replies, the peer
// table, the first cause, watchers. A kind adds how frames leave and calls on_frame when some come.
//
// Thread safe; one lock. Failure: the first cause ends all calls, now and later.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/frame.h"
#include "rendezvous/store.h"

namespace hv::rendezvous {

class RankStore : public Store {
 public:
  base::Result<void> set(std::string_view key, base::ByteSpan value) final;
  base::Result<base::Bytes> get(std::string_view key, base::Deadline deadline) final;
  base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) final;
  base::Result<PeerTable> join(const PeerInfo& self, base::Deadline deadline) final;
  void watch(std::function<void(const Notice&)> on_failure) override;
  void report_fault(const base::Error& error) final;
  void report_stall(const RankStall& stall) final;
  base::Result<void> ask_timeline(TimelineRequest request, base::Deadline deadline) final;
  void leave() final;

 protected:
  RankStore(std::uint32_t epoch, std::string server_name)
      : epoch_(epoch), server_name_(std::move(server_name)) {}

  // These are called without the lock.
  virtual void send(const Frame& frame) = 0;
  virtual void wake() = 0;         // makes the store's own thread call run_watchers() soon
  virtual void on_deadline() = 0;  // of a call that has not been answered

  void on_frame(const Frame& frame);
  void on_disconnected(const base::Error& why);  // a failure unless we have left
  void run_watchers();
  // The server's answer to our RankHello.
  base::Result<void> await_welcome(base::Deadline deadline);

 private:
  using Id = std::uint64_t;
  using Lock = std::unique_lock<std::mutex>;

  template <class Message>
  base::Result<base::Bytes> call(Message message, base::Deadline deadline);
  Id begin_call();
  template <class Done>
  bool wait_for(Lock& lock, base::Deadline deadline, Done done);
  base::Result<base::Bytes> end_call(Id id);
  base::Error no_answer() const;
  void fail(Notice notice);
  base::Error why_ended() const;

  const std::uint32_t epoch_;
  const std::string server_name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Id next_id_ = 1;
  std::map<Id, std::optional<StoreReply>> calls_;  // under way, and their replies
  bool welcome_ = false;
  bool connected_ = true;
  bool left_ = false;
  std::optional<PeerTable> table_;  // the last one, until a join takes it
  std::optional<Notice> failure_;
  std::vector<std::function<void(const Notice&)>> watchers_;
};

}  // namespace hv::rendezvous
