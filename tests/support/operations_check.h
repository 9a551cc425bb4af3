// Every named operation with every type, empty and uneven tensors included, against results worked
// out here in another way. Returns what was wrong, or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hv/hv.h"
#include "runtime/collective/reduce.h"
#include "runtime/op.h"
#include "tests/support/collective_check.h"

namespace hv::test {

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> all = [] {
    auto types = reducible_dtypes();
    types.push_back(DType::kFloat8E4M3);
    types.push_back(DType::kFloat8E5M2);
    return types;
  }();
  return all;
}

class OperationsCheck {
 public:
  // `set` has these ranks of the world, of which this is number `index`.
  OperationsCheck(Collectives& set, std::vector<int> ranks, int index)
      : set_(set), ranks_(std::move(ranks)), index_(index) {}

  std::string run(const std::vector<std::int64_t>& counts) {
    for (DType dtype : all_dtypes()) {
      for (std::int64_t count : counts) {
        dtype_ = dtype;
        count_ = count;
        moves();
        for (ReduceOp op : reduce_ops()) {
          if (runtime::check_reduction(dtype, op)) reduces(op);
        }
        if (!wrong_.empty()) return wrong_;
      }
    }
    set_.barrier("check.barrier").wait();
    return wrong_;
  }

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr std::int64_t kRow = 3;  // elements

  int size() const { return static_cast<int>(ranks_.size()); }
  std::int64_t bytes(std::int64_t elements) const {
    return elements * static_cast<std::int64_t>(size_of(dtype_));
  }
  Bytes input(int index, std::int64_t elements) const {
    return input_tensor(dtype_, ReduceOp::kSum, ranks_[index], elements);
  }
  TensorView tensor(Bytes& data, std::int64_t rows, std::int64_t row = kRow) const {
    return {data.data(), dtype_, {rows, row}, -1};
  }
  void expect(const Bytes& got, const Bytes& wanted, const std::string& what) {
    const auto at = first_difference(dtype_, got, wanted);
    if (at < 0 || !wrong_.empty()) return;
    wrong_ = what + " of " + std::to_string(count_) + " " + std::string(to_string(dtype_)) + ": " +
             std::to_string(got.size()) + " bytes for " + std::to_string(wanted.size()) +
             ", element " + std::to_string(at) + " is wrong on rank " +
             std::to_string(ranks_[index_]);
  }
  static Bytes bytes_of(const TensorView& view) {
    const auto* data = static_cast<const std::byte*>(view.data);
    return Bytes(data, data + view.bytes());
  }

  void moves() {
    gathers();
    for (int root : {0, size() - 1}) broadcasts(root);
    exchanges();
  }
  std::int64_t rows_of(int index) const { return index % 3 == 1 ? 0 : count_ + index; }
  void gathers() {
    Bytes mine = input(index_, rows_of(index_) * kRow);
    Handle handle = set_.allgather("check", tensor(mine, rows_of(index_)));
    handle.wait();
    Bytes wanted;
    std::vector<std::int64_t> rows;
    for (int i = 0; i < size(); ++i) {
      const Bytes part = input(i, rows_of(i) * kRow);
      wanted.insert(wanted.end(), part.begin(), part.end());
      rows.push_back(rows_of(i));
    }
    expect(bytes_of(handle.output()), wanted, "allgather");
    if (handle.rows() != rows) wrong_ = "allgather: wrong numbers of rows";
  }
  void broadcasts(int root) {
    const Bytes wanted = input(root, count_ * kRow);
    Bytes data = input(index_, count_ * kRow);
    set_.broadcast("check", tensor(data, count_), ranks_[root]).wait();
    expect(data, wanted, "broadcast");
    Bytes in = input(index_, count_ * kRow), out(in.size());
    set_.broadcast("check", tensor(in, count_), tensor(out, count_), ranks_[root]).wait();
    expect(out, wanted, "broadcast out of place");
    expect(in, input(index_, count_ * kRow), "input of a broadcast");
  }
  std::int64_t split(int from, int to) const { return (from + 2 * to) % 4 * count_ / 3; }
  std::int64_t split_before(int from, int to) const {
    std::int64_t rows = 0;
    for (int i = 0; i < to; ++i) rows += split(from, i);
    return rows;
  }
  void exchanges() {
    std::vector<std::int64_t> splits, received;
    Bytes wanted;
    for (int i = 0; i < size(); ++i) {
      splits.push_back(split(index_, i));
      received.push_back(split(i, index_));
      const Bytes theirs = input(i, split_before(i, size()) * kRow);
      const auto begin = theirs.begin() + bytes(split_before(i, index_) * kRow);
      wanted.insert(wanted.end(), begin, begin + bytes(split(i, index_) * kRow));
    }
    const std::int64_t rows = split_before(index_, size());
    Bytes mine = input(index_, rows * kRow);
    Handle handle = set_.alltoall("check", tensor(mine, rows), splits);
    handle.wait();
    expect(bytes_of(handle.output()), wanted, "alltoall");
    if (handle.rows() != received) wrong_ = "alltoall: wrong numbers of rows received";
  }

  void reduces(ReduceOp op) {
    const Bytes given = input_tensor(dtype_, op, ranks_[index_], count_ * 2);
    const Bytes wanted = expected(op, count_ * 2);
    Bytes data = given;
    set_.allreduce("check", tensor(data, count_, 2), {.op = op}).wait();
    expect(data, wanted, "allreduce by " + std::string(to_string(op)));
    Bytes in = given, out(in.size());
    set_.allreduce("check", tensor(in, count_, 2), tensor(out, count_, 2), {.op = op}).wait();
    expect(out, wanted, "allreduce out of place");
    expect(in, given, "input of an allreduce");

    std::int64_t begin = 0;
    for (int i = 0; i < index_; ++i) begin += runtime::share_of_rows(count_, i, size());
    const std::int64_t rows = runtime::share_of_rows(count_, index_, size());
    const Bytes share(wanted.begin() + bytes(begin * 2),
                      wanted.begin() + bytes((begin + rows) * 2));
    Handle handle = set_.reducescatter("check", tensor(in, count_, 2), {.op = op});
    handle.wait();
    expect(bytes_of(handle.output()), share, "reducescatter by " + std::string(to_string(op)));
    Bytes place(share.size());
    set_.reducescatter("check", tensor(in, count_, 2), tensor(place, rows, 2), {.op = op}).wait();
    expect(place, share, "reducescatter to a tensor");
    expect(in, given, "input of a reducescatter");
  }
  // As expected_allreduce, for ranks that need not be 0, 1, 2, …
  Bytes expected(ReduceOp op, std::int64_t elements) const {
    Bytes data(static_cast<std::size_t>(bytes(elements)));
    for (std::int64_t i = 0; i < elements; ++i) {
      std::int64_t value = input_value(dtype_, op, ranks_[0], i);
      for (int r = 1; r < size(); ++r) {
        const std::int64_t next = input_value(dtype_, op, ranks_[r], i);
        if (op == ReduceOp::kMin) value = std::min(value, next);
        if (op == ReduceOp::kMax) value = std::max(value, next);
        if (op == ReduceOp::kProduct) value *= next;
        if (op == ReduceOp::kSum || op == ReduceOp::kAverage) value += next;
      }
      double result = static_cast<double>(value);
      if (op == ReduceOp::kAverage) {
        result = is_floating(dtype_) ? result / size() : static_cast<double>(value / size());
      }
      put(dtype_, data.data(), i, result);
    }
    return data;
  }

  Collectives& set_;
  const std::vector<int> ranks_;
  const int index_;
  DType dtype_ = DType::kUint8;
  std::int64_t count_ = 0;
  std::string wrong_;
};

}  // namespace hv::test
