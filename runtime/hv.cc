// The public methods of World: check what the caller hands in, then submit.
#include "hv/hv.h"

#include <utility>

#include "runtime/collective/reduce.h"
#include "runtime/raise.h"
#include "runtime/world.h"

namespace hv {
namespace {

using runtime::Op;
using runtime::OpKind;

constexpr std::size_t kMaxName = 64 * 1024;

[[noreturn]] void refuse(const Op& op, const std::string& why,
                         ErrorCode code = ErrorCode::kInvalidArgument) {
  throw Error(code, std::string(runtime::to_string(op.kind)) + " '" + op.name + "': " + why);
}

Op make_op(OpKind kind, std::string_view name) {
  Op op;
  op.kind = kind;
  op.name = name;
  if (name.empty()) refuse(op, "the name is empty; all ranks must use one name for one tensor");
  if (name.size() > kMaxName) refuse(op, "the name is longer than 64 KiB");
  return op;
}

void check(const Op& op, const TensorView& view) {
  for (std::int64_t extent : view.shape) {
    if (extent < 0) refuse(op, "the shape " + to_string(view.shape) + " has a negative extent");
  }
  if (view.data == nullptr && view.count() > 0) {
    refuse(op, "no data for a tensor of shape " + to_string(view.shape));
  }
  if (view.device >= 0) {
    refuse(op,
           "the tensor is on GPU " + std::to_string(view.device) +
               ", and no GPU backend is loaded here",
           ErrorCode::kUnavailable);
  }
}

}  // namespace

int World::rank() const { return impl_->topology().rank; }
int World::size() const { return impl_->topology().size; }
int World::local_rank() const { return impl_->topology().local_rank; }
int World::local_size() const { return static_cast<int>(impl_->topology().local_ranks().size()); }
int World::host_count() const { return static_cast<int>(impl_->topology().hosts.size()); }
std::string World::host() const { return impl_->host(); }

int World::cross_rank() const {
  const auto& topology = impl_->topology();
  int index = 0;
  for (int host = 0; host < topology.my_host(); ++host) {
    index += static_cast<int>(topology.hosts[host].size()) > topology.local_rank;
  }
  return index;
}

int World::cross_size() const {
  const auto& topology = impl_->topology();
  int hosts = 0;
  for (const auto& ranks : topology.hosts) {
    hosts += static_cast<int>(ranks.size()) > topology.local_rank;
  }
  return hosts;
}

Handle World::allreduce(std::string_view name, const TensorView& inout,
                        const AllreduceOptions& options) {
  return allreduce(name, inout, inout, options);
}

Handle World::allreduce(std::string_view name, const TensorView& in, const TensorView& out,
                        const AllreduceOptions& options) {
  Op op = make_op(OpKind::kAllreduce, name);
  check(op, in);
  check(op, out);
  if (in.shape != out.shape || in.dtype != out.dtype || in.device != out.device) {
    refuse(op, "input (" + std::string(to_string(in.dtype)) + " " + to_string(in.shape) +
                   ") and output (" + std::string(to_string(out.dtype)) + " " +
                   to_string(out.shape) + ") differ");
  }
  if (auto ok = runtime::check_reduction(in.dtype, options.op); !ok) refuse(op, ok.error().text);
  op.input = in;
  op.output = out;
  op.reduce = options.op;
  op.prescale = options.prescale;
  op.postscale = options.postscale;
  return impl_->submit(std::move(op));
}

Handle World::broadcast(std::string_view name, const TensorView& inout, int root) {
  Op op = make_op(OpKind::kBroadcast, name);
  check(op, inout);
  if (root < 0 || root >= size()) {
    refuse(op, "root " + std::to_string(root) + " is not a rank of this world (0 to " +
                   std::to_string(size() - 1) + ")");
  }
  op.input = inout;
  op.output = inout;
  op.root = root;
  return impl_->submit(std::move(op));
}

Handle World::allgather(std::string_view name, const TensorView& in) {
  Op op = make_op(OpKind::kAllgather, name);
  check(op, in);
  if (in.shape.empty()) refuse(op, "a scalar has no rows; give it the shape [1]");
  op.input = in;
  return impl_->submit(std::move(op));
}

Handle World::barrier(std::string_view name) {
  return impl_->submit(make_op(OpKind::kBarrier, name));
}

Communicator World::communicator() { return Communicator(impl_->communicator()); }

void World::start_timeline(const std::string& path, bool mark_cycles) {
  impl_->ask_timeline(true, path, mark_cycles);
}

void World::stop_timeline() { impl_->ask_timeline(false, {}, false); }

void World::shutdown() { impl_->shutdown(); }

}  // namespace hv
