// The flight recorder's memory: what a rank's operations have come to, written by the rank into a
// memfd that its agent owns, so that it outlives the rank. One ring of the last operations, and one
// of finished ones for the timeline, which costs no memory while it is not used.
//
// A contract between agent and rank, as contract.h. One process writes (its engine), one reads (the
// agent, by pread, so that no rank can make it fault). Entries are trusted for display only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace hv::rendezvous {

enum class OpState : std::uint32_t { kNone, kSubmitted, kRunning, kDone, kFailed };

template <std::size_t kSize>
struct ShortText {  // longer texts keep their end, which tells more
  std::array<char, kSize> bytes{};
  void set(std::string_view text) {
    if (text.size() >= kSize) {
      text.remove_prefix(text.size() - (kSize - 1));
    }
    text.copy(bytes.data(), text.size());
    bytes[text.size()] = '\0';
  }
  std::string_view view() const { return {bytes.data(), ::strnlen(bytes.data(), kSize)}; }
};

// Times: CLOCK_MONOTONIC of the host, in nanoseconds; 0 where there was none.
struct OpRecord {
  std::atomic<std::uint64_t> number{0};  // of this rank's submissions, from 1; 0: being written
  std::atomic<OpState> state{OpState::kNone};
  std::uint32_t set = 0;    // process set
  std::uint64_t batch = 0;  // sequence number, the same on all ranks of the set
  std::uint64_t bytes = 0;
  std::int64_t submitted_ns = 0, agreed_ns = 0, started_ns = 0;
  std::int64_t packed_ns = 0, reduced_ns = 0, done_ns = 0;
  ShortText<16> kind;       // "allreduce"
  ShortText<16> dtype;      // "float32"
  ShortText<16> algorithm;  // "shm-slices"
  ShortText<128> name;

  OpRecord() = default;
  OpRecord(const OpRecord& other) { *this = other; }
  OpRecord& operator=(const OpRecord& other) {
    std::memcpy(static_cast<void*>(this), static_cast<const void*>(&other), sizeof *this);
    return *this;
  }
};
static_assert(sizeof(OpRecord) == 256);

struct SetMembers {                  // a process set that this rank is in
  std::atomic<std::uint32_t> id{0};  // 0: free; the set of all ranks needs none
  ShortText<124> ranks;              // "0-3,7"
};

enum class Presence : std::uint32_t { kNotYet, kInWorld, kLeft };

struct RecorderHeader {
  static constexpr std::uint64_t kMagic = 0x68762d666c697431;
  std::uint64_t magic = kMagic;
  std::atomic<std::int32_t> pid{0};
  std::atomic<Presence> presence{Presence::kNotYet};
  std::atomic<std::uint64_t> submitted{0}, finished{0};  // operations, so far
  std::atomic<std::int64_t> last_submitted_ns{0};
  std::atomic<std::int64_t> waited_ns{0};  // with something submitted that not all ranks had
  // The timeline's ring: the agent switches it and takes from it, the rank adds.
  std::atomic<std::uint32_t> tracing{0};  // 1: on; 3: and each round of decisions
  std::uint32_t unused = 0;
  std::atomic<std::uint64_t> traced{0}, taken{0}, dropped{0};
  std::array<SetMembers, 28> sets;
};

constexpr std::size_t kRecords = 2048;
constexpr std::size_t kTraceRoom = 16384;
constexpr std::size_t kRecordsAt = 4096;
constexpr std::size_t kTraceAt = kRecordsAt + kRecords * sizeof(OpRecord);
constexpr std::size_t kRecorderBytes = kTraceAt + kTraceRoom * sizeof(OpRecord);
static_assert(sizeof(RecorderHeader) <= kRecordsAt);

// The variable by which the agent tells the rank which descriptor it is.
inline constexpr const char* kRecorderVariable = "HVRUN_RECORDER";
// A memfd that can neither grow nor shrink, with its header written.
base::Result<base::UniqueFd> make_recorder_memory();

}  // namespace hv::rendezvous
