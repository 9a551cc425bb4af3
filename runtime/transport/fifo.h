// A queue that keeps its memory, so that a repeated step allocates nothing.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hv::runtime {

template <class T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  T& operator[](std::size_t i) { return items_[head_ + i]; }
  T& front() { return items_[head_]; }
  void push(T item) { items_.push_back(std::move(item)); }
  void pop() {
    if (++head_ == items_.size()) {
      clear();
    } else if (head_ >= kCompactAt && head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }

 private:
  static constexpr std::size_t kCompactAt = 64;
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace hv::runtime
