// FlightRecorder: notes what each operation of this rank has come to, in memory that the agent
// owns (or, without one, this process), and finished ones for the timeline while that is on.
//
// Thread: submitted() one at a time (the engine's mutex); the rest is the baton holder's. Owner:
// the engine. Never fails and never waits: what has no room is counted, not kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rendezvous/recorder.h"
#include "runtime/moments.h"
#include "runtime/op.h"

namespace hv::runtime {

class FlightRecorder {
 public:
  using Place = std::uint32_t;
  static constexpr Place kNowhere = ~Place{0};

  // Maps the memory behind this descriptor if it is a recorder's; else takes some of its own.
  static FlightRecorder open(const std::optional<std::string>& descriptor);

  void enter(int pid);  // a world begins
  void leave();
  void set_members(std::uint32_t set, std::string_view ranks);  // "" when the set is gone

  Place submitted(const Op& op, std::int64_t now);
  void agreed(Place place, std::uint64_t batch, std::int64_t now);
  void finished(Place place, bool well, std::int64_t now, const Moments* moments);
  void decided(std::int64_t now);  // a round of decisions, for the timeline

  bool tracing() const { return (header_->tracing.load(std::memory_order_relaxed) & 1) != 0; }
  // The oldest operation that is not finished, or null; for who has time.
  const rendezvous::OpRecord* oldest() const;

  const rendezvous::RecorderHeader& header() const { return *header_; }
  std::span<const rendezvous::OpRecord> records() const { return {records_, rendezvous::kRecords}; }

 private:
  explicit FlightRecorder(std::shared_ptr<std::byte> memory);
  void trace(const rendezvous::OpRecord& record, rendezvous::OpState state);

  std::shared_ptr<std::byte> memory_;
  rendezvous::RecorderHeader* header_;
  rendezvous::OpRecord* records_;
  rendezvous::OpRecord* traced_;
  std::uint64_t next_ = 0;         // where the next record may go
  std::int64_t waited_until_ = 0;  // what waited_ns has counted
};

}  // namespace hv::runtime
