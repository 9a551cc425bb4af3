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
struct Name;

class HandleState {
 public:
  HandleState(std::weak_ptr<Engine> engine, std::int64_t submitted_ns)
      : engine_(std::move(engine)), submitted_ns_(submitted_ns) {}

  bool done() const { return done_ns_.load(std::memory_order_acquire) != 0; }
  const std::optional<base::Error>& error() const { return error_; }
  std::shared_ptr<Engine> engine() const { return engine_.lock(); }
  std::int64_t submitted_ns() const { return submitted_ns_; }
  std::int64_t done_ns() const { return done_ns_.load(std::memory_order_acquire); }

  // Allgather: makes room for what all ranks give; kSystem if there is not that much memory.
  std::optional<base::Error> allocate_output(DType dtype, Shape shape,
                                             std::vector<std::int64_t> rows);
  const TensorView& output() const { return output_; }
  const std::vector<std::int64_t>& rows() const { return rows_; }

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
  std::weak_ptr<Engine> engine_;
  std::int64_t submitted_ns_;
  std::atomic<std::int64_t> done_ns_{0};
  std::optional<base::Error> error_;
  std::unique_ptr<std::byte, Free> memory_;
  TensorView output_;
  std::vector<std::int64_t> rows_;
};

}  // namespace hv::runtime
