#include "runtime/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/base/text.h"

namespace hv::runtime {
namespace {

using rendezvous::kRecorderBytes;
using rendezvous::kRecords;
using rendezvous::kTraceRoom;
using rendezvous::OpRecord;
using rendezvous::OpState;
using rendezvous::Presence;
using rendezvous::RecorderHeader;

std::shared_ptr<std::byte> map(int fd, int flags) {
  void* at = ::mmap(nullptr, kRecorderBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(at), [](std::byte* p) { ::munmap(p, kRecorderBytes); }};
}

// The program may have closed what it inherited, and opened something else in its place.
std::shared_ptr<std::byte> map_given(const std::optional<std::string>& descriptor) {
  const auto number = descriptor ? base::parse_int(*descriptor) : std::nullopt;
  if (!number || *number < 3 || *number > 1 << 20) return nullptr;
  const int fd = static_cast<int>(*number);
  struct stat info {};
  std::uint64_t magic = 0;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &info) != 0 ||
      info.st_size != static_cast<off_t>(kRecorderBytes) ||
      ::pread(fd, &magic, sizeof magic, 0) != sizeof magic || magic != RecorderHeader::kMagic) {
    return nullptr;
  }
  return map(fd, MAP_SHARED);
}

template <class T>
void put(std::atomic<T>& to, T value) {
  to.store(value, std::memory_order_relaxed);
}
template <class T>
void add_one(std::atomic<T>& to) {  // one thread writes
  put(to, to.load(std::memory_order_relaxed) + 1);
}

bool is_pending(const OpRecord& record) {
  const OpState state = record.state.load(std::memory_order_acquire);
  return state == OpState::kSubmitted || state == OpState::kRunning;
}

}  // namespace

FlightRecorder FlightRecorder::open(const std::optional<std::string>& descriptor) {
  auto memory = map_given(descriptor);
  if (!memory) {
    memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    if (!memory) {
      memory = {new std::byte[kRecorderBytes](), std::default_delete<std::byte[]>()};
    }
    new (memory.get()) RecorderHeader;
  }
  return FlightRecorder(std::move(memory));
}

FlightRecorder::FlightRecorder(std::shared_ptr<std::byte> memory)
    : memory_(std::move(memory)),
      header_(reinterpret_cast<RecorderHeader*>(memory_.get())),
      records_(reinterpret_cast<OpRecord*>(memory_.get() + rendezvous::kRecordsAt)),
      traced_(reinterpret_cast<OpRecord*>(memory_.get() + rendezvous::kTraceAt)) {}

void FlightRecorder::enter(int pid) {
  // What an earlier world of this rank has left pending ended with it.
  for (std::size_t i = 0; i < kRecords; ++i) {
    if (is_pending(records_[i])) records_[i].state.store(OpState::kFailed);
  }
  for (auto& set : header_->sets) set.id.store(0);
  header_->pid.store(pid);
  header_->presence.store(Presence::kInWorld);
}

void FlightRecorder::leave() { header_->presence.store(Presence::kLeft); }

void FlightRecorder::set_members(std::uint32_t set, std::string_view ranks) {
  for (auto& members : header_->sets) {
    const std::uint32_t id = members.id.load();
    if (id != set && (id != 0 || ranks.empty())) continue;
    members.ranks.set(ranks);
    members.id.store(ranks.empty() ? 0 : set);
    return;
  }
}

// A record that is not finished stays: the next one that is gives way.
FlightRecorder::Place FlightRecorder::submitted(const Op& op, std::int64_t now) {
  constexpr int kTries = 64;
  add_one(header_->submitted);
  put(header_->last_submitted_ns, now);
  for (int i = 0; i < kTries; ++i) {
    const auto place = static_cast<Place>(next_++ % kRecords);
    OpRecord& record = records_[place];
    if (is_pending(record)) continue;
    put(record.number, std::uint64_t{0});
    std::atomic_thread_fence(std::memory_order_release);
    record.set = static_cast<std::uint32_t>(op.set);
    record.batch = 0;
    record.bytes = has_data(op.kind) ? op.input.bytes() : 0;
    record.submitted_ns = now;
    record.agreed_ns = record.started_ns = record.packed_ns = record.reduced_ns = 0;
    record.done_ns = 0;
    record.kind.set(to_string(op.kind));
    record.dtype.set(to_string(op.input.dtype));
    record.algorithm.bytes[0] = '\0';
    record.name.set(op.name);
    record.state.store(OpState::kSubmitted, std::memory_order_release);
    record.number.store(header_->submitted.load(std::memory_order_relaxed),
                        std::memory_order_release);
    return place;
  }
  return kNowhere;
}

void FlightRecorder::agreed(Place place, std::uint64_t batch, std::int64_t now) {
  if (place == kNowhere) return;
  OpRecord& record = records_[place];
  record.batch = batch;
  record.agreed_ns = now;
  const std::int64_t since = std::max(record.submitted_ns, waited_until_);
  if (now > since)
    put(header_->waited_ns, header_->waited_ns.load(std::memory_order_relaxed) + (now - since));
  waited_until_ = std::max(waited_until_, now);
  record.state.store(OpState::kRunning, std::memory_order_release);
}

void FlightRecorder::finished(Place place, bool well, std::int64_t now, const Moments* moments) {
  add_one(header_->finished);
  if (place == kNowhere) return;
  OpRecord& record = records_[place];
  record.done_ns = now;
  if (moments != nullptr) {
    record.started_ns = moments->started_ns;
    record.packed_ns = moments->packed_ns;
    record.reduced_ns = moments->reduced_ns;
    record.algorithm.set(moments->algorithm);
  }
  const OpState state = well ? OpState::kDone : OpState::kFailed;
  if (tracing()) trace(record, state);
  record.state.store(state, std::memory_order_release);  // last: the record may be taken again
}

void FlightRecorder::decided(std::int64_t now) {
  if ((header_->tracing.load(std::memory_order_relaxed) & 2) == 0) return;
  OpRecord mark;
  mark.done_ns = mark.submitted_ns = now;
  mark.kind.set("cycle");
  trace(mark, OpState::kDone);
}

void FlightRecorder::trace(const OpRecord& record, OpState state) {
  const std::uint64_t head = header_->traced.load(std::memory_order_relaxed);
  if (head - header_->taken.load(std::memory_order_acquire) >= kTraceRoom) {
    return add_one(header_->dropped);
  }
  OpRecord& traced = traced_[head % kTraceRoom];
  traced = record;
  traced.state.store(state, std::memory_order_relaxed);
  header_->traced.store(head + 1, std::memory_order_release);
}

const OpRecord* FlightRecorder::oldest() const {
  const OpRecord* oldest = nullptr;
  for (const OpRecord& record : records()) {
    if (record.kind.view() == "join") continue;  // may wait as long as the others have work
    if (is_pending(record) && (oldest == nullptr || record.submitted_ns < oldest->submitted_ns)) {
      oldest = &record;
    }
  }
  return oldest;
}

}  // namespace hv::runtime
