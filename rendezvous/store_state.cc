#include "rendezvous/store_state.h"

#include <array>
#include <cstdio>

#include "rendezvous/base/text.h"
#include "rendezvous/codec.h"

namespace hv::rendezvous {

namespace {

using base::Code;
using base::Error;

StoreState::Send reply(StoreState::Client to, std::uint64_t id, base::Bytes value) {
  return {to, encode(StoreReply{id, {}, std::move(value)})};
}
StoreState::Send reply(StoreState::Client to, std::uint64_t id, const Error& error) {
  return {to, encode(StoreReply{id, to_wire(error), {}})};
}

StoreState::Effects dropped(Error why) {
  StoreState::Effects effects;
  effects.drop = std::move(why);
  return effects;
}

std::string seconds(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(time.count()) / 1000);
  return text.data();
}

std::string rank_text(std::int32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

StoreState::Effects StoreState::begin_epoch(std::uint32_t epoch, int size) {
  Effects effects;
  if (!members_.empty()) {
    effects =
        fail_epoch(-1, {Code::kAborted, "epoch " + std::to_string(epoch_) + " has ended, epoch " +
                                            std::to_string(epoch) + " begins"});
  }
  epoch_ = epoch;
  failure_.reset();
  ranks_.assign(static_cast<std::size_t>(size), {});
  arrived_ = 0;
  generation_ = 0;
  values_.clear();
  total_bytes_ = 0;
  return effects;
}

StoreState::Effects StoreState::fail_epoch(std::int32_t failed_rank, const Error& cause) {
  Effects effects;
  if (failure_) return effects;
  failure_ = Notice{epoch_, failed_rank, to_wire(cause)};
  waiters_.clear();  // the notice ends what they wait for
  effects.sends.push_back({kEveryone, encode(*failure_)});
  return effects;
}

StoreState::Effects StoreState::on_frame(Client client, const Frame& frame, Time now) {
  auto with = [&]<class Message>(auto&& handle) {
    auto message = decode<Message>(frame.body);
    return message ? handle(*message) : dropped(message.error());
  };
  switch (frame.type) {
    case MsgType::kRankHello:
      return with.operator()<RankHello>([&](auto& m) { return on_hello(client, m); });
    case MsgType::kStoreSet:
      return with.operator()<StoreSet>([&](auto& m) { return on_set(client, m); });
    case MsgType::kStoreGet:
      return with.operator()<StoreGet>([&](auto& m) { return on_get(client, m, now); });
    case MsgType::kStoreAdd:
      return with.operator()<StoreAdd>([&](auto& m) { return on_add(client, m); });
    case MsgType::kJoin:
      return with.operator()<Join>([&](auto& m) { return on_join(client, m, now); });
    case MsgType::kLeave:
      return with.operator()<Leave>([&](auto& m) { return on_leave(client, m); });
    case MsgType::kRankFault:
      return with.operator()<RankFault>([&](auto& m) { return on_rank_fault(client, m); });
    case MsgType::kRankStall:
      return with.operator()<RankStall>([&](auto& m) { return on_rank_stall(client, m); });
    case MsgType::kTimelineRequest:
      return with.operator()<TimelineRequest>([&](auto& m) { return on_timeline(client, m); });
    default:  // MsgType comes from the wire: any number is possible
      return dropped({Code::kProtocol, "a rank does not send messages of type " +
                                           std::to_string(static_cast<int>(frame.type))});
  }
}

// ---- membership ----------------------------------------------------------------------------

std::optional<Error> StoreState::why_refused(const RankHello& hello) const {
  std::string who = rank_text(hello.rank) + " (process " + std::to_string(hello.pid) + ")";
  if (hello.epoch != epoch_) return stale(hello.epoch);
  if (hello.build_id != build_id_) {
    return Error{Code::kProtocol, who + " was built with hvrun " + hello.build_id +
                                      ", but hvrun is " + build_id_ +
                                      ": build the program again with the installed hvrun"};
  }
  if (hello.rank < 0 || hello.rank >= static_cast<std::int32_t>(ranks_.size())) {
    return Error{Code::kInvalidArgument,
                 who + " does not exist in a job of " + std::to_string(ranks_.size()) + " ranks"};
  }
  const Rank& rank = ranks_[static_cast<std::size_t>(hello.rank)];
  if (rank.place == Place::kConnected) {
    return Error{Code::kInvalidArgument,
                 who + " is taken already by process " + std::to_string(rank.pid) +
                     ": one process of a rank may be in the job at a time; does the program "
                     "start further processes that call init too?"};
  }
  return std::nullopt;
}

StoreState::Effects StoreState::on_hello(Client client, const RankHello& hello) {
  auto member = members_.find(client);
  if (member != members_.end() && member->second.epoch == epoch_) {
    return dropped({Code::kProtocol, "a second hello on one connection"});
  }
  Effects effects;
  RankWelcome welcome{epoch_, static_cast<std::int32_t>(ranks_.size()), {}};
  if (auto why = why_refused(hello)) {
    welcome.refused = to_wire(*why);
    effects.sends.push_back({client, encode(welcome)});
    effects.events.emplace_back(Refused{hello, *why});
    effects.drop = std::move(why);
    return effects;
  }
  members_[client] = {epoch_, hello.rank};
  Rank& rank = ranks_[static_cast<std::size_t>(hello.rank)];
  rank.place = Place::kConnected;
  rank.pid = hello.pid;
  effects.sends.push_back({client, encode(welcome)});
  if (failure_) effects.sends.push_back({client, encode(*failure_)});
  effects.events.emplace_back(hello);
  return effects;
}

// The rank that this client was in the current epoch.
std::optional<std::int32_t> StoreState::end_membership(Client client, Place place) {
  stop_waiting(client);
  auto found = members_.find(client);
  if (found == members_.end()) return std::nullopt;
  Member member = found->second;
  members_.erase(found);
  if (member.epoch != epoch_) return std::nullopt;
  Rank& rank = ranks_[static_cast<std::size_t>(member.rank)];
  rank.place = place;
  if (rank.arrived) --arrived_;
  rank.arrived.reset();
  return member.rank;
}

StoreState::Effects StoreState::on_closed(Client client) {
  Effects effects;
  if (auto rank = end_membership(client, Place::kLost)) effects.events.emplace_back(Lost{*rank});
  return effects;
}

void StoreState::forget(Client client) { end_membership(client, Place::kLost); }

StoreState::Effects StoreState::on_leave(Client client, const Leave& message) {
  Effects effects;
  if (message.epoch == epoch_) {
    if (auto rank = end_membership(client, Place::kLeft)) effects.events.emplace_back(Left{*rank});
  }
  effects.sends.push_back(reply(client, message.id, base::Bytes{}));
  return effects;
}

StoreState::Effects StoreState::on_rank_fault(Client client, const RankFault& message) {
  auto member = members_.find(client);
  if (member == members_.end() || member->second.epoch != epoch_ || message.epoch != epoch_) {
    return {};
  }
  std::int32_t rank = member->second.rank;
  Error error = from_wire(message.error);
  if (error.origin.empty()) error.origin = rank_text(rank);
  Effects effects = fail_epoch(rank, error);
  effects.events.emplace_back(Fault{rank, std::move(error)});
  return effects;
}

StoreState::Effects StoreState::on_rank_stall(Client client, const RankStall& message) {
  Effects effects;
  if (why_not_served(client, message.epoch)) return effects;
  effects.events.emplace_back(Stalled{members_.at(client).rank, message});
  return effects;
}

StoreState::Effects StoreState::on_timeline(Client client, const TimelineRequest& message) {
  Effects effects;
  if (auto why = why_not_served(client, message.epoch)) {
    effects.sends.push_back(reply(client, message.id, *why));
  } else {
    effects.events.emplace_back(TimelineAsked{client, members_.at(client).rank, message});
  }
  return effects;
}

StoreState::Send StoreState::answer(Client client, std::uint64_t id, const WireError& error) {
  return {client, encode(StoreReply{id, error, {}})};
}

Error StoreState::stale(std::uint32_t epoch) const {
  return {Code::kAborted, "the process belongs to epoch " + std::to_string(epoch) +
                              ", the job is in epoch " + std::to_string(epoch_)};
}

std::optional<Error> StoreState::why_not_served(Client client, std::uint32_t epoch) const {
  auto member = members_.find(client);
  if (member == members_.end()) return Error{Code::kShutdown, "not a member of the job (any more)"};
  if (epoch != epoch_ || member->second.epoch != epoch_) return stale(epoch);
  if (failure_) return from_wire(failure_->cause);
  return std::nullopt;
}

// ---- keys ----------------------------------------------------------------------------------

base::Result<void> StoreState::store(const std::string& key, base::Bytes value, Effects& effects) {
  auto found = values_.find(key);
  std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  std::size_t total = total_bytes_ - before + key.size() + value.size();
  if (key.size() > caps_.key_bytes || value.size() > caps_.value_bytes ||
      total > caps_.total_bytes) {
    return base::fail(Code::kInvalidArgument,
                      "a key of " + base::human_bytes(key.size()) + " with a value of " +
                          base::human_bytes(value.size()) +
                          " exceeds what the store takes: " + base::human_bytes(caps_.key_bytes) +
                          ", " + base::human_bytes(caps_.value_bytes) + ", and " +
                          base::human_bytes(caps_.total_bytes) + " in all");
  }
  total_bytes_ = total;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    bool waits = it->second.key == key;
    if (waits) effects.sends.push_back(reply(it->second.client, it->second.id, value));
    it = waits ? waiters_.erase(it) : std::next(it);
  }
  values_[key] = std::move(value);
  return {};
}

StoreState::Effects StoreState::on_set(Client client, const StoreSet& message) {
  Effects effects;
  auto why = why_not_served(client, message.epoch);
  if (!why) {
    auto stored = store(message.key, message.value, effects);
    if (!stored) why = stored.error();
  }
  effects.sends.push_back(why ? reply(client, message.id, *why)
                              : reply(client, message.id, base::Bytes{}));
  return effects;
}

StoreState::Effects StoreState::on_add(Client client, const StoreAdd& message) {
  Effects effects;
  auto refuse = [&](const Error& why) {
    effects.sends.push_back(reply(client, message.id, why));
    return effects;
  };
  if (auto why = why_not_served(client, message.epoch)) return refuse(*why);
  std::uint64_t sum = static_cast<std::uint64_t>(message.delta);
  if (auto found = values_.find(message.key); found != values_.end()) {
    if (found->second.size() != sizeof sum) {
      return refuse({Code::kInvalidArgument,
                     "key " + base::quoted(message.key) + " does not hold a number to add to"});
    }
    sum += base::Reader(found->second).get<std::uint64_t>();
  }
  base::Bytes value;
  base::Writer(value).put(sum);
  if (auto stored = store(message.key, value, effects); !stored) return refuse(stored.error());
  effects.sends.push_back(reply(client, message.id, std::move(value)));
  return effects;
}

StoreState::Effects StoreState::on_get(Client client, const StoreGet& message, Time now) {
  Effects effects;
  auto found = values_.find(message.key);
  if (auto why = why_not_served(client, message.epoch)) {
    effects.sends.push_back(reply(client, message.id, *why));
  } else if (found != values_.end()) {
    effects.sends.push_back(reply(client, message.id, found->second));
  } else {
    wait({client, message.id, message.key, {}}, message.wait_ms, now);
    if (message.wait_ms == 0) return on_time(now);
  }
  return effects;
}

// ---- the peer table ------------------------------------------------------------------------

StoreState::Effects StoreState::on_join(Client client, const Join& message, Time now) {
  Effects effects;
  auto refuse = [&](const Error& why) {
    effects.sends.push_back(reply(client, message.id, why));
    return effects;
  };
  if (auto why = why_not_served(client, message.epoch)) return refuse(*why);
  std::int32_t number = members_.at(client).rank;
  if (message.self.rank != number) {
    return refuse(
        {Code::kInvalidArgument, rank_text(number) + " joins as " + rank_text(message.self.rank)});
  }
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (!rank.arrived) ++arrived_;
  rank.arrived = message.self;
  effects.events.emplace_back(Joined{number, generation_ + 1});
  if (arrived_ == ranks_.size()) {
    std::erase_if(waiters_, [](const auto& waiter) { return !waiter.second.key; });
    effects.sends.push_back({kEveryone, make_table()});
    return effects;
  }
  wait({client, message.id, std::nullopt, {}}, message.wait_ms, now);
  return effects;
}

Frame StoreState::make_table() {
  PeerTable table{epoch_, ++generation_, {}};
  table.peers.reserve(ranks_.size());
  for (auto& rank : ranks_) {
    table.peers.push_back(std::move(*rank.arrived));
    rank.arrived.reset();
  }
  arrived_ = 0;
  return encode(table);
}

// ---- waiting -------------------------------------------------------------------------------

void StoreState::wait(Waiter waiter, std::uint32_t wait_ms, Time now) {
  waiter.waits = std::chrono::milliseconds(wait_ms);
  waiters_.emplace(wait_ms == kWaitForever ? Time::max() : now + waiter.waits, std::move(waiter));
}

void StoreState::stop_waiting(Client client) {
  std::erase_if(waiters_, [&](const auto& waiter) { return waiter.second.client == client; });
}

StoreState::Time StoreState::next_time() const {
  return waiters_.empty() ? Time::max() : waiters_.begin()->first;
}

StoreState::Effects StoreState::on_time(Time now) {
  Effects effects;
  while (!waiters_.empty() && waiters_.begin()->first <= now) {
    const Waiter& waiter = waiters_.begin()->second;
    effects.sends.push_back(reply(waiter.client, waiter.id, timeout_of(waiter)));
    waiters_.erase(waiters_.begin());
  }
  return effects;
}

Error StoreState::timeout_of(const Waiter& waiter) const {
  if (waiter.key) {
    return {Code::kTimeout, "no rank has set key " + base::quoted(*waiter.key) + " within " +
                                seconds(waiter.waits)};
  }
  std::vector<int> absent, idle, left;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].arrived) continue;
    bool connected = ranks_[i].place == Place::kConnected;
    (ranks_[i].place == Place::kAbsent ? absent
     : connected                       ? idle
                                       : left)
        .push_back(static_cast<int>(i));
  }
  std::vector<std::string> groups;
  auto add = [&](const std::vector<int>& group, const char* what) {
    if (!group.empty()) groups.push_back(base::ranges(group) + " (" + what + ")");
  };
  add(absent, "never called init");
  add(idle, "connected, but not joined");
  add(left, "left");
  return {Code::kTimeout, "after " + seconds(waiter.waits) + " " +
                              std::to_string(ranks_.size() - arrived_) + " of " +
                              std::to_string(ranks_.size()) +
                              " ranks are missing: " + base::join(groups, ", ")};
}

}  // namespace hv::rendezvous
