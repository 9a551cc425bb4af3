#include "runtime/handle.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "hv/hv.h"
#include "rendezvous/base/deadline.h"
#include "rendezvous/base/text.h"
#include "runtime/backend/gpu.h"
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

bool HandleState::done() const {
  if (members_.empty()) return done_ns_.load(std::memory_order_acquire) != 0;
  std::size_t seen = members_done_.load(std::memory_order_relaxed);
  while (seen < members_.size() && members_[seen]->done()) ++seen;
  members_done_.store(seen, std::memory_order_relaxed);
  return seen == members_.size();
}

bool HandleState::on_stream() const {
  if (members_.empty()) return on_stream_.load(std::memory_order_acquire) || done();
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->on_stream(); });
}

const std::optional<base::Error>& HandleState::error() const {
  for (const auto& member : members_) {
    if (member->error_) return member->error_;
  }
  return error_;
}

std::shared_ptr<Engine> HandleState::engine() const { return member(0).engine_.lock(); }

std::int64_t HandleState::submitted_ns() const { return member(0).submitted_ns_; }

std::int64_t HandleState::done_ns() const {
  std::int64_t last = done_ns_.load(std::memory_order_acquire);
  for (const auto& member : members_) {
    const std::int64_t one = member->done_ns();
    if (one == 0) return 0;
    last = std::max(last, one);
  }
  return last;
}

const HandleState& HandleState::member(std::size_t index) const {
  return members_.empty() ? *this : *members_.at(index);
}

std::optional<base::Error> HandleState::allocate_output(DType dtype, Shape shape) {
  output_.dtype = dtype;
  output_.shape = std::move(shape);
  const std::size_t bytes = output_.bytes();
  memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow)));
  if (!memory_) {
    return base::Error{base::Code::kSystem,
                       "no memory for the " + base::human_bytes(bytes) + " of its result",
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

const runtime::HandleState& checked(const std::shared_ptr<runtime::HandleState>& state,
                                    std::size_t index) {
  const auto& group = checked(state);
  if (index >= group.outputs()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "output " + std::to_string(index) + " of a handle with " + std::to_string(group.outputs()));
  }
  return group.member(index);
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

void Handle::wait_on(void* stream) {
  const runtime::HandleState& state = checked(state_);
  if (!state.on_stream()) {
    if (auto engine = state.engine()) engine->wait_until_on_stream(state);
  }
  for (std::size_t i = 0; i < state.outputs(); ++i) {
    const runtime::HandleState& member = state.member(i);
    if (member.done() && member.error()) runtime::raise(*member.error());
    if (auto point = member.done() ? nullptr : member.point()) {
      runtime::value_or_raise(point->hold_back(stream));
    }
  }
}

TensorView Handle::output(std::size_t index) const {
  const auto& state = checked(state_, index);
  return state.on_stream() ? state.output() : TensorView{nullptr, DType::kUint8, {0}, -1};
}

std::vector<std::int64_t> Handle::rows(std::size_t index) const {
  const auto& state = checked(state_, index);
  return state.on_stream() ? state.rows() : std::vector<std::int64_t>();
}

std::size_t Handle::outputs() const { return checked(state_).outputs(); }

int Handle::last_joined() const {
  const auto& state = checked(state_);
  return state.done() && !state.rows().empty() ? static_cast<int>(state.rows().front()) : -1;
}

std::int64_t Handle::submitted_ns() const { return checked(state_).submitted_ns(); }
std::int64_t Handle::done_ns() const { return checked(state_).done_ns(); }

}  // namespace hv
