#include "launcher/agent/rank_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "rendezvous/base/log.h"
#include "rendezvous/recorder.h"

namespace hv::launcher {

namespace {

using rendezvous::OpRecord;
using rendezvous::OpState;
using rendezvous::OpView;
using rendezvous::RecorderHeader;

constexpr std::size_t kPendingShown = 256, kFinishedShown = 32;
constexpr std::size_t kTraceAtOnce = 4096;

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

template <class T>
bool read_at(int fd, std::size_t offset, T* to, std::size_t count = 1) {
  const auto bytes = static_cast<ssize_t>(count * sizeof(T));
  return ::pread(fd, static_cast<void*>(to), static_cast<std::size_t>(bytes),
                 static_cast<off_t>(offset)) == bytes;
}

template <class T>
void write_at(int fd, std::size_t offset, T value) {
  [[maybe_unused]] auto n = ::pwrite(fd, &value, sizeof value, static_cast<off_t>(offset));
}

// The letter of /proc/PID/stat; 0: there is no such process.
std::uint8_t process_state(int pid) {
  char path[64], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  const std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = '\0';
  const char* after_name = std::strrchr(text, ')');
  return after_name != nullptr && after_name[1] == ' ' ? static_cast<std::uint8_t>(after_name[2])
                                                       : 0;
}

OpView view_of(const OpRecord& record, std::int64_t now) {
  OpView view;
  view.number = record.number;
  view.state = static_cast<std::uint8_t>(record.state.load());
  view.kind = record.kind.view();
  view.name = record.name.view();
  view.dtype = record.dtype.view();
  view.bytes = record.bytes;
  view.set = record.set;
  view.batch = record.batch;
  view.submitted_us_ago = (now - record.submitted_ns) / 1000;
  if (record.done_ns != 0) view.done_us_ago = (now - record.done_ns) / 1000;
  return view;
}

bool is_pending(const OpRecord* record) {
  const OpState state = record->state.load();
  return state == OpState::kSubmitted || state == OpState::kRunning;
}

// The pending ones, the oldest first, then the last finished ones, by number.
std::vector<OpView> views_of(const std::vector<OpRecord>& records, std::int64_t now) {
  std::vector<const OpRecord*> pending, finished;
  for (const OpRecord& record : records) {
    if (record.number == 0) continue;
    (is_pending(&record) ? pending : finished).push_back(&record);
  }
  const auto by_number = [](const OpRecord* a, const OpRecord* b) { return a->number < b->number; };
  std::sort(pending.begin(), pending.end(), by_number);
  std::sort(finished.begin(), finished.end(), by_number);
  if (pending.size() > kPendingShown) pending.resize(kPendingShown);
  std::vector<OpView> views;
  for (const auto* record : pending) views.push_back(view_of(*record, now));
  const auto first = finished.size() - std::min(finished.size(), kFinishedShown);
  for (auto i = first; i < finished.size(); ++i) views.push_back(view_of(*finished[i], now));
  return views;
}

}  // namespace

RankRecorder::RankRecorder(int rank) : rank_(rank) {
  auto memory = rendezvous::make_recorder_memory();
  if (memory) {
    memory_ = std::move(*memory);
  } else {
    base::log(base::LogLevel::kWarning, memory.error().text);
  }
}

rendezvous::KeyValue RankRecorder::variable() const {
  return {rendezvous::kRecorderVariable, std::to_string(descriptor())};
}

rendezvous::RecorderView RankRecorder::view() const {
  rendezvous::RecorderView view;
  view.rank = rank_;
  view.pid = pid_;
  auto header = std::make_unique<RecorderHeader>();
  std::vector<OpRecord> records(rendezvous::kRecords);
  if (memory_ && read_at(memory_.get(), 0, header.get()) &&
      read_at(memory_.get(), rendezvous::kRecordsAt, records.data(), records.size())) {
    if (header->pid != 0) view.pid = header->pid;
    view.presence = static_cast<std::uint8_t>(header->presence.load());
    view.submitted = header->submitted;
    view.finished = header->finished;
    view.waited_us = header->waited_ns / 1000;
    view.ops = views_of(records, monotonic_ns());
    for (const auto& set : header->sets) {
      if (set.id == 0) continue;
      view.sets.push_back({std::to_string(set.id.load()), std::string(set.ranks.view())});
    }
  }
  if (view.pid != 0) view.process_state = process_state(view.pid);
  return view;
}

void RankRecorder::add_totals(rendezvous::RankExited& exited) const {
  auto header = std::make_unique<RecorderHeader>();
  if (!memory_ || !read_at(memory_.get(), 0, header.get())) return;
  exited.operations = header->finished;
  exited.waited_us = header->waited_ns / 1000;
}

void RankRecorder::set_tracing(const rendezvous::Tracing& tracing) {
  if (!memory_) return;
  const std::uint32_t flags = !tracing.on ? 0 : tracing.mark_cycles ? 3 : 1;
  write_at(memory_.get(), offsetof(RecorderHeader, tracing), flags);
}

rendezvous::Traced RankRecorder::take_traced() {
  rendezvous::Traced traced;
  traced.rank = rank_;
  auto header = std::make_unique<RecorderHeader>();
  if (!memory_ || !read_at(memory_.get(), 0, header.get())) return traced;
  traced.dropped = header->dropped;
  const std::uint64_t from = header->taken;
  const std::uint64_t count = std::min<std::uint64_t>(
      header->traced - from, std::min(kTraceAtOnce, rendezvous::kTraceRoom));
  std::vector<OpRecord> records(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t at = (from + i) % rendezvous::kTraceRoom;
    read_at(memory_.get(), rendezvous::kTraceAt + at * sizeof(OpRecord), &records[i]);
  }
  write_at(memory_.get(), offsetof(RecorderHeader, taken), from + count);
  const auto bytes = std::as_bytes(std::span(records));
  traced.records.assign(bytes.begin(), bytes.end());
  return traced;
}

}  // namespace hv::launcher
