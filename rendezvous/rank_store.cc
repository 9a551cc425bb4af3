#include "rendezvous/rank_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rendezvous/codec.h"

namespace hv::rendezvous {

namespace {

using base::Clock;
using base::Code;
using base::Deadline;
using base::Result;

// The server answers at the deadline, with the reason; this is how long that may take.
constexpr std::chrono::milliseconds kAnswerTime{1000};
// For calls that wait for nothing but the server itself.
constexpr std::chrono::seconds kCallTime{30};
constexpr std::chrono::seconds kGoodbyeTime{2};

std::uint32_t wait_ms(Deadline deadline) {
  return deadline.is_never() ? kWaitForever : static_cast<std::uint32_t>(deadline.poll_ms());
}

}  // namespace

// ---- calls ---------------------------------------------------------------------------------

RankStore::Id RankStore::begin_call() {
  Id id = next_id_++;
  calls_.emplace(id, std::nullopt);
  return id;
}

// Waits until done(); false if the server has not answered a while after the deadline.
template <class Done>
bool RankStore::wait_for(Lock& lock, Deadline deadline, Done done) {
  if (deadline.is_never()) {
    changed_.wait(lock, done);
    return true;
  }
  if (changed_.wait_until(lock, deadline.time(), done)) return true;
  // Who answers has counted from when it heard of the call: for it the time is up a little later.
  const auto end = deadline.time() + kAnswerTime;
  for (auto next = deadline.time(); next < end;) {
    lock.unlock();
    on_deadline();
    lock.lock();
    next += kAnswerTime / 100;
    if (changed_.wait_until(lock, next, done)) return true;
  }
  return false;
}

Result<base::Bytes> RankStore::end_call(Id id) {
  auto call = calls_.extract(id);
  if (!call.mapped()) return base::fail(failure_ || left_ ? why_ended() : no_answer());
  if (call.mapped()->error.code != 0) return base::fail(from_wire(call.mapped()->error));
  return std::move(call.mapped()->value);
}

base::Error RankStore::no_answer() const {
  return {Code::kTimeout, server_name_ + " has not answered: is it stopped or overloaded?"};
}

base::Error RankStore::why_ended() const {
  if (failure_) return from_wire(failure_->cause);
  return {Code::kShutdown, "this rank has left the job"};
}

template <class Message>
Result<base::Bytes> RankStore::call(Message message, Deadline deadline) {
  Lock lock(mutex_);
  if (failure_ || left_) return base::fail(why_ended());
  Id id = message.id = begin_call();
  message.epoch = epoch_;
  lock.unlock();
  send(encode(message));
  lock.lock();
  wait_for(lock, deadline, [&] { return failure_ || left_ || calls_.at(id); });
  return end_call(id);
}

Result<void> RankStore::set(std::string_view key, base::ByteSpan value) {
  StoreSet message{0, 0, std::string(key), {value.begin(), value.end()}};
  auto reply = call(std::move(message), Deadline::after(kCallTime));
  if (!reply) return base::fail(reply.error());
  return {};
}

Result<base::Bytes> RankStore::get(std::string_view key, Deadline deadline) {
  return call(StoreGet{0, 0, std::string(key), wait_ms(deadline)}, deadline);
}

Result<std::int64_t> RankStore::add(std::string_view key, std::int64_t delta) {
  auto reply = call(StoreAdd{0, 0, std::string(key), delta}, Deadline::after(kCallTime));
  if (!reply) return base::fail(reply.error());
  return base::Reader(*reply).get<std::int64_t>();
}

Result<PeerTable> RankStore::join(const PeerInfo& self, Deadline deadline) {
  Lock lock(mutex_);
  if (failure_ || left_) return base::fail(why_ended());
  table_.reset();
  Id id = begin_call();
  lock.unlock();
  send(encode(Join{id, epoch_, wait_ms(deadline), self}));
  lock.lock();
  wait_for(lock, deadline, [&] { return table_ || failure_ || left_ || calls_.at(id); });
  auto reply = end_call(id);
  if (table_) return *std::exchange(table_, std::nullopt);
  if (reply) return base::fail(Code::kInternal, "a join was answered without a table");
  return base::fail(reply.error());
}

void RankStore::report_fault(const base::Error& error) {
  {
    Lock lock(mutex_);
    if (failure_ || left_) return;
  }
  send(encode(RankFault{epoch_, to_wire(error)}));
}

void RankStore::report_stall(const RankStall& stall) {
  {
    Lock lock(mutex_);
    if (failure_ || left_) return;
  }
  RankStall message = stall;
  message.epoch = epoch_;
  send(encode(message));
}

Result<void> RankStore::ask_timeline(TimelineRequest request, Deadline deadline) {
  auto reply = call(std::move(request), deadline);
  if (!reply) return base::fail(reply.error());
  return {};
}

void RankStore::leave() {
  Lock lock(mutex_);
  if (left_) return;
  left_ = true;
  changed_.notify_all();
  if (!connected_) return;
  bool wait = !failure_;  // in a failed epoch nobody misses us; a watcher may be the caller
  Id id = begin_call();
  lock.unlock();
  send(encode(Leave{id, epoch_}));
  lock.lock();
  // Not our wait_for: this is the one answer that a rank that has left waits for.
  changed_.wait_for(lock, kGoodbyeTime, [&] { return !wait || !connected_ || calls_.at(id); });
  calls_.erase(id);
}

Result<void> RankStore::await_welcome(Deadline deadline) {
  Lock lock(mutex_);
  wait_for(lock, deadline, [&] { return welcome_ || failure_; });
  if (welcome_) return {};
  return base::fail(failure_ ? why_ended() : no_answer());
}

// ---- what comes ----------------------------------------------------------------------------

void RankStore::on_frame(const Frame& frame) {
  auto with = [&]<class Message>(auto&& handle) {
    auto message = decode<Message>(frame.body);
    if (!message) return on_disconnected(message.error());
    Lock lock(mutex_);
    handle(*message);
    changed_.notify_all();
  };
  switch (frame.type) {
    case MsgType::kRankWelcome:
      return with.operator()<RankWelcome>([&](RankWelcome& m) {
        if (m.refused.code != 0) {
          fail({epoch_, -1, m.refused});
        } else {
          welcome_ = true;
        }
      });
    case MsgType::kStoreReply:
      return with.operator()<StoreReply>([&](StoreReply& m) {
        auto call = calls_.find(m.id);  // none: the call has ended at its deadline
        if (call != calls_.end()) call->second = std::move(m);
      });
    case MsgType::kPeerTable:
      return with.operator()<PeerTable>([&](PeerTable& m) {
        if (m.epoch == epoch_) table_ = std::move(m);
      });
    case MsgType::kNotice:
      return with.operator()<Notice>([&](Notice& m) {
        if (m.epoch == epoch_) fail(std::move(m));
      });
    default:  // MsgType comes from the wire: any number is possible
      on_disconnected({Code::kProtocol, server_name_ + " sent a message of type " +
                                            std::to_string(static_cast<int>(frame.type))});
  }
}

void RankStore::on_disconnected(const base::Error& why) {
  Lock lock(mutex_);
  if (!std::exchange(connected_, false)) return;
  base::Error error = why;
  error.text = "lost the connection to " + server_name_ + ": " + why.text;
  fail({epoch_, -1, to_wire(error)});
  changed_.notify_all();
}

void RankStore::fail(Notice notice) {
  if (failure_ || left_) return;
  failure_ = std::move(notice);
  if (!watchers_.empty()) wake();
}

// ---- watchers ------------------------------------------------------------------------------

void RankStore::watch(std::function<void(const Notice&)> on_failure) {
  Lock lock(mutex_);
  watchers_.push_back(std::move(on_failure));
  if (failure_) wake();
}

void RankStore::run_watchers() {
  Lock lock(mutex_);
  if (!failure_) return;
  auto watchers = std::exchange(watchers_, {});
  Notice notice = *failure_;
  lock.unlock();
  for (auto& watcher : watchers) watcher(notice);
}

}  // namespace hv::rendezvous
