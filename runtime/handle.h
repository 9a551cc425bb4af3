// HandleState: how one submitted operation ends. Shared by the user's handles and the engine.
//
// Thread: done() and, once it is true, everything else: any thread. Before that the results are the
// baton holder's. Failure: finish() runs exactly once, with the operation's error if it has one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hv/types.h"
#include "rendezvous/base/error.h"
#include "runtime/moments.h"

namespace hv::runtime {

class Engine;
class GpuPoint;
struct Name;

class HandleState {
 public:
  HandleState(std::weak_ptr<Engine> engine, std::int64_t submitted_ns)
      : engine_(std::move(engine)), submitted_ns_(submitted_ns) {}

  // A group: done when all of its members are.
  explicit HandleState(std::vector<std::shared_ptr<HandleState>> members)
      : members_(std::move(members)) {}

  bool done() const;
  const std::optional<base::Error>& error() const;  // of a group, the first member's that has one
  std::shared_ptr<Engine> engine() const;
  std::int64_t submitted_ns() const;
  std::int64_t done_ns() const;
  std::size_t outputs() const { return members_.empty() ? 1 : members_.size(); }
  const HandleState& member(std::size_t index) const;

  // Makes room for a result; kSystem if there is not that much memory.
  std::optional<base::Error> allocate_output(DType dtype, Shape shape);
  void set_rows(std::vector<std::int64_t> rows) { rows_ = std::move(rows); }
  const TensorView& output() const { return output_; }
  const std::vector<std::int64_t>& rows() const { return rows_; }
  // The same with memory that somebody has made.
  void set_output(TensorView output, std::shared_ptr<void> memory) {
    output_ = std::move(output);
    device_memory_ = std::move(memory);
  }
  // A device operation is on a stream that reaches `point` when it is done.
  void set_on_stream(std::shared_ptr<GpuPoint> point) {
    point_ = std::move(point);
    on_stream_.store(true, std::memory_order_release);
  }
  // Nothing more than that is to be waited for; true also when it is done. Of a group: all.
  bool on_stream() const;
  const std::shared_ptr<GpuPoint>& point() const { return point_; }  // once on_stream(); or null
  // Memory that must live as long as the handle.
  void keep(std::shared_ptr<void> memory) { kept_ = std::move(memory); }

  void finish(std::optional<base::Error> error, std::int64_t now_ns) {
    error_ = std::move(error);
    done_ns_.store(now_ns, std::memory_order_release);
  }

  Name* name = nullptr;                      // the engine's, until done
  std::uint32_t record = ~std::uint32_t{0};  // in the flight recorder

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  const std::vector<std::shared_ptr<HandleState>> members_;
  mutable std::atomic<std::size_t> members_done_{0};  // the first so many
  std::weak_ptr<Engine> engine_;
  std::int64_t submitted_ns_ = 0;
  std::atomic<std::int64_t> done_ns_{0};
  std::optional<base::Error> error_;
  std::unique_ptr<std::byte, Free> memory_;
  TensorView output_;
  std::vector<std::int64_t> rows_;
  std::shared_ptr<void> kept_, device_memory_;
  std::atomic<bool> on_stream_{false};
  std::shared_ptr<GpuPoint> point_;
};

}  // namespace hv::runtime
