#include "runtime/handle.h"

#include <chrono>
#include <new>

#include "hv/hv.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/text.h"
#include "runtime/engine.h"
#include "runtime/raise.h"

namespace hv {
namespace runtime {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now().time_since_epoch())
      .count();
}

void HandleState::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kAlignment);
}

std::optional<base::Error> HandleState::allocate_output(DType dtype, Shape shape,
                                                        std::vector<std::int64_t> rows) {
  output_.dtype = dtype;
  output_.shape = std::move(shape);
  rows_ = std::move(rows);
  const std::size_t bytes = output_.bytes();
  memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow)));
  if (!memory_) {
    return base::Error{base::Code::kSystem,
                       "no memory for " + base::human_bytes(bytes) + " of allgathered rows",
                       {},
                       0};
  }
  output_.data = memory_.get();
  return std::nullopt;
}

}  // namespace runtime

namespace {

const runtime::HandleState& checked(const std::shared_ptr<runtime::HandleState>& state) {
  if (!state) {
    throw Error(ErrorCode::kInvalidArgument, "this handle belongs to no operation");
  }
  return *state;
}

}  // namespace

bool Handle::done() const { return checked(state_).done(); }

void Handle::wait() { wait_for(std::chrono::nanoseconds::max()); }

bool Handle::wait_for(std::chrono::nanoseconds time) {
  const runtime::HandleState& state = checked(state_);
  if (!state.done()) {
    const bool forever = time > std::chrono::hours(24 * 365);
    const auto deadline = forever ? base::Deadline::never() : base::Deadline::after(time);
    // Whoever ends an engine has finished all of its handles.
    if (auto engine = state.engine(); engine && !engine->wait(state, deadline)) return false;
  }
  if (state.error()) runtime::raise(*state.error());
  return true;
}

TensorView Handle::output() const {
  const auto& state = checked(state_);
  return state.done() ? state.output() : TensorView{nullptr, DType::kUint8, {0}, -1};
}

std::vector<std::int64_t> Handle::rows() const {
  const auto& state = checked(state_);
  return state.done() ? state.rows() : std::vector<std::int64_t>();
}

std::int64_t Handle::submitted_ns() const { return checked(state_).submitted_ns(); }
std::int64_t Handle::done_ns() const { return checked(state_).done_ns(); }

}  // namespace hv
