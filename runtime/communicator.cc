#include "runtime/communicator.h"

#include <sched.h>

#include <chrono>
#include <numeric>
#include <utility>

#include "runtime/raise.h"
#include "runtime/spinner.h"

namespace hv {
namespace runtime {
namespace {

// How a caller waits on one host: spins if every rank has a core, yields, then sleeps. Where ranks
// share cores it yields a few times only: each yield puts a rank further back in the scheduler's
// queue, so that it would not run when its turn to work has come.
constexpr std::chrono::microseconds kSpin{20};
constexpr int kYields = 1000, kYieldsWhenCrowded = 20;
constexpr std::chrono::milliseconds kSleep{20};

[[noreturn]] void refuse(OpKind kind, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "raw " + std::string(to_string(kind)) + ": " + why);
}

void check(OpKind kind, const TensorView& tensor) {
  for (std::int64_t extent : tensor.shape) {
    if (extent < 0)
      refuse(kind, "the shape " + hv::to_string(tensor.shape) + " has a negative extent");
  }
  if (tensor.data == nullptr && tensor.count() > 0) refuse(kind, "the tensor has no data");
  if (tensor.device >= 0)
    refuse(kind, "the tensor is on a GPU; this communicator is for host memory");
}

std::int64_t sum_of(const GatherCounts& counts) {
  return std::accumulate(counts.elements.begin(), counts.elements.end(), std::int64_t{0});
}

void check_counts(OpKind kind, const GatherCounts& counts, int ranks) {
  if (counts.elements.size() != static_cast<std::size_t>(ranks)) {
    refuse(kind, "counts names " + std::to_string(counts.elements.size()) + " ranks of " +
                     std::to_string(ranks));
  }
  for (std::int64_t count : counts.elements) {
    if (count < 0) refuse(kind, "a count is negative");
  }
}

void lend(std::vector<Stretch>& stretches, Range range, void* data) {
  if (!range.empty()) stretches.push_back({range, static_cast<std::byte*>(data)});
}

}  // namespace

base::Result<void> CommunicatorImpl::run(Work work) {
  bool done = false;
  base::Result<void> result;
  const auto on_done = [&](base::Result<void> r) {
    result = std::move(r);
    done = true;
  };
  if (!plane_.transport) {
    lane_->start(std::move(work), on_done);
    drive(done);
    return result;
  }
  auto pumped = pump_.run([&] { lane_->start(std::move(work), on_done); },
                          [&] {
                            lane_->poll();
                            return done;
                          });
  if (done) return result;
  lane_->fail(pumped ? base::Error{base::Code::kInternal, "the engine stopped too early", {}, 0}
                     : pumped.error());
  return result;
}

void CommunicatorImpl::drive(const bool& done) {
  const bool crowded = plane_.local->crowded();
  Spinner spinner(crowded ? std::chrono::microseconds(0) : kSpin,
                  crowded ? kYieldsWhenCrowded : kYields);
  while (!done) {
    if (lane_->poll()) {
      spinner.restart();
    } else if (!spinner.again()) {
      plane_.local->look_for_losses();
      lane_->slots().sleep(kSleep, [&] { return lane_->poll(); });
    }
  }
}

void CommunicatorImpl::check_alltoall(const TensorView& in, const GatherCounts& send,
                                      const TensorView& out, const GatherCounts& receive) const {
  constexpr OpKind kKind = OpKind::kAlltoall;
  check(kKind, in);
  check(kKind, out);
  check_counts(kKind, send, size());
  check_counts(kKind, receive, size());
  if (in.dtype != out.dtype || in.count() != sum_of(send) || out.count() != sum_of(receive)) {
    refuse(kKind, "input or output do not have the type and size that the counts say");
  }
}

// `counts`: elements from each rank to each, [from * size + to].
void CommunicatorImpl::alltoall(const TensorView& in, const TensorView& out,
                                const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> blocks;
  for (std::int64_t count : counts) {
    blocks.push_back(static_cast<std::size_t>(count) * size_of(in.dtype));
  }
  const std::size_t longest = longest_of(blocks, static_cast<std::size_t>(size()));
  if (longest == 0) return;
  Work work = take_work();
  work.kind = OpKind::kAlltoall;
  work.dtype = in.dtype;
  fill_alltoall(work, topology(), piece_width_for(work.kind, longest), blocks,
                static_cast<std::byte*>(in.data), static_cast<std::byte*>(out.data));
  value_or_raise(run(std::move(work)));
}

base::Result<std::shared_ptr<std::byte>> CommunicatorImpl::allocate(std::size_t bytes) {
  const std::uint64_t number = allocations_.empty() ? 1 : allocations_.back().number + 1;
  const std::string key = "alloc/" + std::to_string(id_) + "/" + std::to_string(number);
  auto segment = plane_.local->segment(key, bytes, base::Deadline::after(std::chrono::minutes(1)));
  if (!segment) return base::fail(segment.error());
  auto owner = std::make_shared<Segment>(std::move(*segment));
  std::erase_if(allocations_, [](const Allocation& a) { return a.segment.expired(); });
  allocations_.push_back({number, owner});
  return std::shared_ptr<std::byte>(owner, owner->part(plane_.local->rank()).data());
}

void CommunicatorImpl::find_place(Work& work, const void* data) const {
  constexpr int kOffsetBits = 44;
  work.may_be_in_place = !allocations_.empty();
  for (const auto& allocation : allocations_) {
    const auto segment = allocation.segment.lock();
    if (!segment) continue;
    const auto part = segment->part(plane_.local->rank());
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - part.data());
    if (offset >= part.size() || work.bytes > part.size() - offset) continue;
    work.place = allocation.number << kOffsetBits | offset;
    work.shared = *segment;
    work.offset = offset;
  }
}

base::Result<std::shared_ptr<CommunicatorImpl>> make_communicator(DataPlane plane, int id,
                                                                  Pump& pump,
                                                                  base::Deadline deadline) {
  const auto wake = plane.transport ? Slots::Wake::kDoorbell : Slots::Wake::kFutex;
  auto lane = Lane::open(plane, {id + 1, wake, true}, deadline);  // lane 0 is the backend's
  if (!lane) return base::fail(lane.error());
  return std::make_shared<CommunicatorImpl>(std::move(plane), id, pump, std::move(*lane));
}

}  // namespace runtime

using runtime::check;
using runtime::check_counts;
using runtime::lend;
using runtime::OpKind;
using runtime::raise;
using runtime::refuse;
using runtime::sum_of;
using runtime::value_or_raise;
using runtime::Work;

int Communicator::rank() const { return impl_->rank(); }
int Communicator::size() const { return impl_->size(); }
std::string Communicator::algorithm() const { return impl_->algorithm(); }

void Communicator::allreduce(const TensorView& inout, ReduceOp op) { allreduce(inout, inout, op); }

void Communicator::allreduce(const TensorView& in, const TensorView& out, ReduceOp op) {
  check(OpKind::kAllreduce, in);
  check(OpKind::kAllreduce, out);
  if (in.dtype != out.dtype || in.count() != out.count()) {
    refuse(OpKind::kAllreduce, "input and output differ in type or count");
  }
  if (auto fine = runtime::check_reduction(in.dtype, op); !fine) raise(fine.error());
  if (op == ReduceOp::kAdasum) refuse(OpKind::kAllreduce, "adasum needs World::allreduce");
  if (in.count() == 0) return;
  Work work = impl_->take_work();
  work.kind = OpKind::kAllreduce;
  work.dtype = in.dtype;
  work.reduce = op;
  work.bytes = in.bytes();
  lend(work.inputs, {0, work.bytes}, in.data);
  lend(work.outputs, {0, work.bytes}, out.data);
  impl_->find_place(work, in.data == out.data ? in.data : nullptr);
  value_or_raise(impl_->run(std::move(work)));
}

void Communicator::broadcast(const TensorView& inout, int root) {
  check(OpKind::kBroadcast, inout);
  if (root < 0 || root >= size()) {
    refuse(OpKind::kBroadcast, "root " + std::to_string(root) + " is not a rank");
  }
  if (inout.count() == 0) return;
  Work work = impl_->take_work();
  work.kind = OpKind::kBroadcast;
  work.dtype = inout.dtype;
  work.root = root;
  work.bytes = inout.bytes();
  lend(rank() == root ? work.inputs : work.outputs, {0, work.bytes}, inout.data);
  value_or_raise(impl_->run(std::move(work)));
}

void Communicator::allgather(const TensorView& in, const TensorView& out,
                             const GatherCounts& counts) {
  check(OpKind::kAllgather, in);
  check(OpKind::kAllgather, out);
  check_counts(OpKind::kAllgather, counts, size());
  const auto& elements = counts.elements;
  if (in.dtype != out.dtype || in.count() != elements[rank()] || out.count() != sum_of(counts)) {
    refuse(OpKind::kAllgather, "input or output do not have the type and size that counts says");
  }
  Work work = impl_->take_work();
  work.kind = OpKind::kAllgather;
  work.dtype = in.dtype;
  std::vector<std::size_t> blocks;
  for (std::int64_t count : elements) {
    blocks.push_back(static_cast<std::size_t>(count) * size_of(in.dtype));
  }
  runtime::add_allgather(work, impl_->topology(), blocks, static_cast<std::byte*>(in.data),
                         static_cast<std::byte*>(out.data));
  if (work.bytes == 0) return;
  value_or_raise(impl_->run(std::move(work)));
}

void Communicator::reducescatter(const TensorView& in, const TensorView& out,
                                 const GatherCounts& counts, ReduceOp op) {
  constexpr OpKind kKind = OpKind::kReducescatter;
  check(kKind, in);
  check(kKind, out);
  check_counts(kKind, counts, size());
  if (in.dtype != out.dtype || in.count() != sum_of(counts) ||
      out.count() != counts.elements[rank()]) {
    refuse(kKind, "input or output do not have the type and size that counts says");
  }
  if (auto fine = runtime::check_reduction(in.dtype, op); !fine) raise(fine.error());
  if (op == ReduceOp::kAdasum) refuse(kKind, "adasum can not be scattered");
  if (in.count() == 0) return;
  Work work = impl_->take_work();
  work.kind = kKind;
  work.dtype = in.dtype;
  work.reduce = op;
  std::vector<std::size_t> blocks;
  for (std::int64_t count : counts.elements) {
    blocks.push_back(static_cast<std::size_t>(count) * size_of(in.dtype));
  }
  runtime::add_reducescatter(work, impl_->topology(), impl_->piece_width_for(kKind, in.bytes()),
                             blocks, static_cast<std::byte*>(in.data),
                             static_cast<std::byte*>(out.data));
  value_or_raise(impl_->run(std::move(work)));
}

void Communicator::alltoall(const TensorView& in, const TensorView& out) {
  if (in.count() % size() != 0) {
    refuse(OpKind::kAlltoall, std::to_string(in.count()) + " elements for " +
                                  std::to_string(size()) + " ranks; pass the counts");
  }
  const GatherCounts even{std::vector<std::int64_t>(size(), in.count() / size())};
  impl_->check_alltoall(in, even, out, even);
  impl_->alltoall(in, out, std::vector<std::int64_t>(size() * size(), in.count() / size()));
}

// What the others send to each other decides how many chunks there are, so all must know all
// counts.
void Communicator::alltoall(const TensorView& in, const GatherCounts& send, const TensorView& out,
                            const GatherCounts& receive) {
  impl_->check_alltoall(in, send, out, receive);
  auto mine = send.elements;
  std::vector<std::int64_t> all(mine.size() * mine.size());
  allgather(view(mine), view(all), {std::vector<std::int64_t>(mine.size(), size())});
  for (int from = 0; from < size(); ++from) {
    const std::int64_t theirs = all[from * size() + rank()];
    if (theirs == receive.elements[from]) continue;
    refuse(OpKind::kAlltoall, "rank " + std::to_string(from) + " sends " + std::to_string(theirs) +
                                  " elements, and this one expects " +
                                  std::to_string(receive.elements[from]));
  }
  impl_->alltoall(in, out, all);
}

void Communicator::barrier() {
  Work work = impl_->take_work();
  work.kind = OpKind::kBarrier;
  value_or_raise(impl_->run(std::move(work)));
}

Buffer Communicator::alloc(std::size_t bytes) {
  Buffer buffer;
  auto memory = value_or_raise(impl_->allocate(bytes));
  buffer.data_ = memory.get();
  buffer.size_ = bytes;
  buffer.owner_ = std::move(memory);
  return buffer;
}

}  // namespace hv
