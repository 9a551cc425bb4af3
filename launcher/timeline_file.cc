#include "launcher/timeline_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace hv::launcher {

namespace {

using rendezvous::OpRecord;
using rendezvous::OpState;

constexpr std::string_view kEnd = "\n]\n";

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// "shm-slices" → "SHM_SLICES"
std::string as_phase(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
            : '_';
  }
  return name;
}

std::string microseconds(std::int64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", static_cast<double>(ns) / 1000);
  return text.data();
}

}  // namespace

base::Result<TimelineFile> TimelineFile::open(std::string path,
                                              const std::vector<std::string>& hosts,
                                              std::int64_t start_ns) {
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return base::fail(base::system_error("cannot write the timeline " + path, errno));
  TimelineFile file(std::move(path), std::move(fd), start_ns);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  file.metadata(
      "start_time_since_epoch_in_micros", 0, 0,
      "\"start_time_since_epoch_in_micros\":" +
          std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto number = static_cast<int>(rank);
    file.metadata("process_name", number, 0,
                  "\"name\":" + json_text("rank " + std::to_string(rank) + " on " + hosts[rank]));
    file.metadata("process_sort_index", number, 0, "\"sort_index\":" + std::to_string(rank));
  }
  if (auto written = file.write(); !written) return base::fail(written.error());
  return file;
}

void TimelineFile::metadata(const char* what, int rank, int row, const std::string& args) {
  begin_event("M", what, rank, row);
  text_ += ",\"args\":{" + args + "}}";
}

// Up to its last brace.
void TimelineFile::begin_event(const char* phase, std::string_view name, int rank, int row) {
  text_ += empty_ ? "[\n" : ",\n";
  empty_ = false;
  text_ += "{\"name\":" + json_text(name) + ",\"ph\":\"" + phase +
           "\",\"pid\":" + std::to_string(rank) + ",\"tid\":" + std::to_string(row);
}

std::string TimelineFile::time(std::int64_t ns, std::int64_t offset_ns) const {
  return microseconds(ns - offset_ns - start_ns_);
}

void TimelineFile::add(int rank, std::span<const OpRecord> records, std::int64_t offset_ns) {
  for (const OpRecord& record : records) {
    if (record.kind.view() == "cycle") {
      begin_event("i", "CYCLE_START", rank, 0);
      text_ += ",\"s\":\"g\",\"ts\":" + time(record.done_ns, offset_ns) + "}";
    } else {
      add_operation(rank, record, offset_ns);
    }
  }
}

// Negotiation, then the operation with its steps inside.
void TimelineFile::add_operation(int rank, const OpRecord& record, std::int64_t offset_ns) {
  const int row = row_of(rank, record);
  auto step = [&](const std::string& name, std::int64_t from, std::int64_t to) {
    begin_event("X", name, rank, row);
    text_ += ",\"ts\":" + time(from, offset_ns) + ",\"dur\":" + microseconds(to - from);
  };
  const std::string kind = as_phase(record.kind.view());
  const std::int64_t agreed = record.agreed_ns != 0 ? record.agreed_ns : record.done_ns;
  step("NEGOTIATE_" + kind, record.submitted_ns, agreed);
  text_ += "}";
  if (record.agreed_ns == 0) return;
  step(kind, agreed, record.done_ns);
  text_ += ",\"args\":{\"dtype\":" + json_text(record.dtype.view()) +
           ",\"bytes\":" + std::to_string(record.bytes) +
           ",\"batch\":" + std::to_string(record.batch) +
           (record.state.load() == OpState::kFailed ? ",\"failed\":true" : "") + "}}";
  if (record.started_ns == 0) return;
  std::int64_t at = agreed;
  auto until = [&](const std::string& name, std::int64_t to) {
    to = std::clamp(to, at, record.done_ns);
    step(name, at, to);
    text_ += "}";
    at = to;
  };
  until("QUEUE", record.started_ns);
  if (record.packed_ns != 0) until("MEMCPY_IN_FUSION_BUFFER", record.packed_ns);
  until(as_phase(record.algorithm.view()),
        record.reduced_ns != 0 ? record.reduced_ns : record.done_ns);
  if (record.reduced_ns != 0) until("MEMCPY_OUT_FUSION_BUFFER", record.done_ns);
}

// The same for a tensor on all ranks.
int TimelineFile::row_of(int rank, const OpRecord& record) {
  std::string name(record.name.view());
  const int next = static_cast<int>(rows_.size()) + 1;
  const int row = rows_.try_emplace({record.set, name}, next).first->second;
  if (named_.insert({rank, row}).second) {
    if (record.set != 0) name += " (process set " + std::to_string(record.set) + ")";
    metadata("thread_name", rank, row, "\"name\":" + json_text(name));
  }
  return row;
}

base::Result<void> TimelineFile::write() {
  if (text_.empty()) return {};
  const std::size_t length = text_.size();
  text_ += kEnd;
  std::size_t done = 0;
  while (done < text_.size()) {
    const ssize_t n = ::pwrite(fd_.get(), text_.data() + done, text_.size() - done,
                               length_ + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return base::fail(base::system_error("cannot write the timeline " + path_, errno));
    done += static_cast<std::size_t>(n);
  }
  length_ += static_cast<std::int64_t>(length);
  text_.clear();
  return {};
}

}  // namespace hv::launcher
