#include "runtime/backend/adasum.h"

#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/collective/pieces.h"

namespace hv::runtime {
namespace {

constexpr std::chrono::seconds kOpen{30};

struct Dots {
  double ab = 0, aa = 0, bb = 0;
};

// In double precision and in a fixed order; eight sums side by side, which fit vector registers.
template <class T>
Dots dots_of(const T* a, const T* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> ab{}, aa{}, bb{};
  for (std::size_t i = 0; i < count; ++i) {
    const double x = a[i], y = b[i];
    ab[i % kLanes] += x * y;
    aa[i % kLanes] += x * x;
    bb[i % kLanes] += y * y;
  }
  Dots sum;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum.ab += ab[lane];
    sum.aa += aa[lane];
    sum.bb += bb[lane];
  }
  return sum;
}

template <class T>
void add_weighed(T* a, const T* b, std::size_t count, const Dots& dots) {
  const double of_a = dots.aa > 0 ? 1 - dots.ab / (2 * dots.aa) : 1;
  const double of_b = dots.bb > 0 ? 1 - dots.ab / (2 * dots.bb) : 1;
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<T>(of_a * a[i] + of_b * b[i]);
}

// Purpose: the memory of one batch, and the arithmetic on this rank's shares of its tensors.
// Thread: the baton holder's. Owner: the coroutine's frame. Cannot fail.
class Shares {
 public:
  Shares(const Batch& batch, const Topology& topology)
      : batch_(batch),
        topology_(topology),
        loops_(kernel(batch.dtype, ReduceOp::kSum)),
        ranks_(static_cast<std::size_t>(topology.size)),
        mine_(elements_of(topology.index())) {
    wide_.resize(ranks_ * mine_ * loops_.wide_size);
  }

  std::size_t tensors() const { return batch_.ops.size(); }
  std::size_t share(std::size_t tensor, int index) const {
    return static_cast<std::size_t>(
        share_of_rows(batch_.ops[tensor].input.count(), index, topology_.size));
  }
  std::size_t elements_of(int index) const {
    std::size_t elements = 0;
    for (std::size_t t = 0; t < tensors(); ++t) elements += share(t, index);
    return elements;
  }
  std::vector<std::size_t> bytes_per_rank() const {
    std::vector<std::size_t> bytes;
    for (int i = 0; i < topology_.size; ++i) bytes.push_back(elements_of(i) * loops_.size);
    return bytes;
  }

  // All tensors, share by share in order of rank; or back.
  void pack(std::byte* to) const { each_share(false, to); }
  void unpack(std::byte* from) const { each_share(true, from); }

  // One rank's shares, as the alltoall has brought them.
  void take(std::size_t rank, const std::byte* from) {
    std::byte* to = wide_.data() + rank * mine_ * loops_.wide_size;
    const Scale scale{1, batch_.prescale, 1};
    loops_.widen(to, from, mine_);
    if (batch_.prescale == 1.0) return;
    with_values([&](auto* values) {
      for (std::size_t i = 0; i < mine_; ++i) {
        values[rank * mine_ + i] *= static_cast<std::decay_t<decltype(*values)>>(scale.post);
      }
    });
  }
  // For each pair of blocks of `size` ranks, and each tensor.
  std::vector<double> dots(std::size_t size) {
    std::vector<double> all;
    each_pair(size, [&](auto* a, auto* b, std::size_t count) {
      const Dots d = dots_of(a, b, count);
      all.insert(all.end(), {d.ab, d.aa, d.bb});
    });
    return all;
  }
  void combine(std::size_t size, const std::vector<double>& dots) {
    std::size_t at = 0;
    each_pair(size, [&](auto* a, auto* b, std::size_t count) {
      add_weighed(a, b, count, {dots[at], dots[at + 1], dots[at + 2]});
      at += 3;
    });
  }
  void finish(std::byte* to) const {
    loops_.finish(to, wide_.data(), mine_, Scale{1, batch_.postscale, 1});
  }

 private:
  template <class Use>
  void with_values(Use use) {
    if (loops_.wide_size == sizeof(double)) {
      use(reinterpret_cast<double*>(wide_.data()));
    } else {
      use(reinterpret_cast<float*>(wide_.data()));
    }
  }
  template <class Each>
  void each_pair(std::size_t size, Each each) {
    with_values([&](auto* values) {
      for (std::size_t left = 0; left + size < ranks_; left += 2 * size) {
        auto* a = values + left * mine_;
        auto* b = values + (left + size) * mine_;
        for (std::size_t t = 0; t < tensors(); ++t) {
          const std::size_t count = share(t, topology_.index());
          each(a, b, count);
          a += count;
          b += count;
        }
      }
    });
  }
  void each_share(bool back, std::byte* packed) const {
    std::vector<std::size_t> done(tensors());
    for (int i = 0; i < topology_.size; ++i) {
      for (std::size_t t = 0; t < tensors(); ++t) {
        const std::size_t bytes = share(t, i) * loops_.size;
        if (bytes == 0) continue;
        const Op& op = batch_.ops[t];
        auto* tensor = static_cast<std::byte*>(back ? op.output.data : op.input.data) + done[t];
        std::memcpy(back ? tensor : packed, back ? packed : tensor, bytes);
        done[t] += bytes;
        packed += bytes;
      }
    }
  }

  const Batch& batch_;
  const Topology& topology_;
  const Kernel& loops_;
  const std::size_t ranks_, mine_;
  std::vector<std::byte> wide_;  // every rank's values of this one's shares
};

// Runs one collective on the lane.
Task perform(Strand& strand, Lane& lane, Work work, std::optional<base::Error>& failure) {
  bool done = false;
  lane.start(std::move(work), [&](base::Result<void> result) {
    if (!result) failure = result.error();
    done = true;
  });
  co_await until(strand, [&] {
    if (failure) strand.error = &*failure;
    return done;
  });
}

Work gather_work(Lane& lane, DType dtype, std::span<const std::size_t> bytes, std::byte* in,
                 std::byte* out) {
  Work work = lane.take_work();
  work.kind = OpKind::kAllgather;
  work.dtype = dtype;
  work.reduce = ReduceOp::kSum;
  work.prescale = work.postscale = 1.0;
  add_allgather(work, lane.topology(), bytes, in, out);
  return work;
}

// What all ranks have found, added in their order.
Task sum_dots(Strand& strand, Lane& lane, std::vector<double>& dots,
              std::optional<base::Error>& failure) {
  const auto ranks = static_cast<std::size_t>(lane.topology().size);
  const std::vector<std::size_t> bytes(ranks, dots.size() * sizeof(double));
  std::vector<double> all(dots.size() * ranks);
  co_await perform(
      strand, lane,
      gather_work(lane, DType::kFloat64, bytes, reinterpret_cast<std::byte*>(dots.data()),
                  reinterpret_cast<std::byte*>(all.data())),
      failure);
  for (std::size_t i = 0; i < dots.size(); ++i) {
    dots[i] = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) dots[i] += all[rank * dots.size() + i];
  }
}

Task run_adasum(Strand& strand, Lane& lane, const Batch& batch,
                std::optional<base::Error>& failure) {
  const Topology& topology = lane.topology();
  const auto ranks = static_cast<std::size_t>(topology.size);
  Shares shares(batch, topology);
  const std::vector<std::size_t> bytes = shares.bytes_per_rank();
  const std::size_t mine = bytes[static_cast<std::size_t>(topology.index())];
  std::size_t all = 0;
  std::vector<std::size_t> blocks;
  for (std::size_t from = 0; from < ranks; ++from) {
    blocks.insert(blocks.end(), bytes.begin(), bytes.end());
    all += bytes[from];
  }
  std::vector<std::byte> whole(all), received(mine * ranks);
  shares.pack(whole.data());
  Work work = lane.take_work();
  work.kind = OpKind::kAlltoall;
  work.dtype = batch.dtype;
  fill_alltoall(work, topology, piece_width(lane.plan_for(work.kind, all), topology.size), blocks,
                whole.data(), received.data());
  co_await perform(strand, lane, std::move(work), failure);
  for (std::size_t rank = 0; rank < ranks; ++rank) shares.take(rank, received.data() + rank * mine);
  received.clear();
  for (std::size_t size = 1; size < ranks; size *= 2) {
    std::vector<double> dots = shares.dots(size);
    co_await sum_dots(strand, lane, dots, failure);
    shares.combine(size, dots);
  }
  received.resize(mine);
  shares.finish(received.data());
  co_await perform(strand, lane,
                   gather_work(lane, batch.dtype, bytes, received.data(), whole.data()), failure);
  shares.unpack(whole.data());
}

}  // namespace

Adasum::~Adasum() {
  // What the lane still runs refers to the task's memory.
  if (!queue_.empty()) lane_.reset();
}

void Adasum::start(Batch batch, Done done) {
  queue_.push_back({std::move(batch), std::move(done)});
}

// All ranks of the host ask for it, each as it comes to its first batch.
bool Adasum::open() {
  if (lane_ || failure_) return lane_ != nullptr;
  auto lane = Lane::open(plane_, {lane_number_, Slots::Wake::kDoorbell, false},
                         base::Deadline::after(kOpen));
  if (lane) {
    lane_ = std::move(*lane);
  } else {
    failure_ = lane.error();
  }
  return lane_ != nullptr;
}

bool Adasum::progress() {
  if (queue_.empty()) return false;
  bool moved = false;
  if (!strand_ && !failure_ && open()) {
    strand_.emplace(frames_);
    task_ = run_adasum(*strand_, *lane_, queue_.front().batch, failure_);
    task_.start();
    moved = true;
  }
  if (strand_) {
    moved = lane_->poll() || moved;
    while (!task_.done() && strand_->poll()) moved = true;
  }
  if (failure_) {
    while (!queue_.empty()) end(base::fail(*failure_));
    return true;
  }
  if (!task_.done()) return moved;
  end({});
  return true;
}

void Adasum::end(base::Result<void> result) {
  task_ = {};
  strand_.reset();
  const Done done = std::move(queue_.front().done);
  queue_.pop_front();
  done(std::move(result));
}

}  // namespace hv::runtime
