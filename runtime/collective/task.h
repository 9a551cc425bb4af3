// Task: a collective's steps as a coroutine that is resumed from poll(). Strand: what one chain of
// nested tasks waits for, and where their frames come from.
//
// Thread: the baton holder's. Owner: a Task owns its frame; the strand outlives its tasks. Failure:
// a strand with an error is never resumed again, its owner destroys the task.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "rendezvous/base/error.h"
#include "runtime/transport/transport.h"

namespace hv::runtime {

// Frames of finished tasks, kept for the next: a repeated step allocates nothing.
class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (auto& blocks : free_) {
      for (void* block : blocks) ::operator delete(block);
    }
  }
  void* take(std::size_t bytes) {
    auto& blocks = free_[size_class(bytes)];
    if (blocks.empty()) return ::operator new(kGrain*(size_class(bytes) + 1));
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  void give(void* block, std::size_t bytes) { free_[size_class(bytes)].push_back(block); }

 private:
  static constexpr std::size_t kGrain = 256;
  static std::size_t size_class(std::size_t bytes) {
    const std::size_t index = (bytes - 1) / kGrain;
    if (index >= kClasses) std::terminate();  // a frame of 16 KiB is a mistake
    return index;
  }
  static constexpr std::size_t kClasses = 64;
  std::array<std::vector<void*>, kClasses> free_;
};

class Condition {
 public:
  virtual bool ready() = 0;

 protected:
  ~Condition() = default;
};

struct Strand {
  explicit Strand(FramePool& frames) : pool(&frames) {}
  FramePool* pool;
  std::coroutine_handle<> waiting;
  Condition* condition = nullptr;
  const base::Error* error = nullptr;

  // True if it went on (perhaps to its end).
  bool poll() {
    if (!condition->ready() || error) return false;
    std::exchange(waiting, {}).resume();
    return true;
  }
};

class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::coroutine_handle<> parent = std::noop_coroutine();

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct ToParent {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().parent;
      }
      void await_resume() noexcept {}
    };
    ToParent final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }

    // Every task function takes its strand first; the frame remembers the pool in front of itself.
    template <class... Args>
    static void* operator new(std::size_t bytes, Strand& strand, const Args&...) {
      auto* block = static_cast<std::byte*>(strand.pool->take(bytes + kHeader));
      new (block) FramePool*(strand.pool);
      return block + kHeader;
    }
    static void operator delete(void* frame, std::size_t bytes) {
      auto* block = static_cast<std::byte*>(frame) - kHeader;
      (*reinterpret_cast<FramePool**>(block))->give(block, bytes + kHeader);
    }
    static constexpr std::size_t kHeader = 16;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  void start() { handle_.resume(); }
  bool done() const { return handle_.done(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

  // co_await a task: runs it, goes on when it has ended.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
    handle_.promise().parent = parent;
    return handle_;
  }
  void await_resume() noexcept {}

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// co_await until(strand, predicate): suspends until the predicate holds at some poll.
template <class Predicate>
class Until final : public Condition {
 public:
  Until(Strand& strand, Predicate predicate) : strand_(strand), predicate_(std::move(predicate)) {}
  bool ready() override { return predicate_(); }
  bool await_ready() { return predicate_() && !strand_.error; }
  void await_suspend(std::coroutine_handle<> self) {
    strand_.waiting = self;
    strand_.condition = this;
  }
  void await_resume() noexcept {}

 private:
  Strand& strand_;
  Predicate predicate_;
};
template <class Predicate>
Until<Predicate> until(Strand& strand, Predicate predicate) {
  return Until<Predicate>(strand, std::move(predicate));
}

// co_await finished(strand, pending): all its messages have arrived or left; an error among them
// stops the strand.
inline auto finished(Strand& strand, const Pending& pending) {
  return until(strand, [&strand, &pending] {
    if (pending.error && !strand.error) strand.error = pending.error;
    return pending.done();
  });
}

}  // namespace hv::runtime
