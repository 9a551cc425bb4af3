#include "runtime/host_detour.h"

#include <memory>
#include <vector>

namespace hv::runtime {
namespace {

struct Detour {
  Batch batch;  // of device tensors
  std::vector<std::vector<std::byte>> inputs, outputs;
};

base::Result<void> fetch(Gpu& gpu, Detour& detour, Batch& on_host) {
  for (std::size_t i = 0; i < detour.batch.ops.size(); ++i) {
    const Op& op = detour.batch.ops[i];
    auto& in = detour.inputs.emplace_back(op.input.bytes());
    auto& out = detour.outputs.emplace_back(op.output.bytes());
    auto copied = gpu.copy(in.data(), op.input.data, in.size(), op.ready.get());
    if (!copied) return copied;
    on_host.ops[i].input.data = in.data();
    on_host.ops[i].output.data = out.data();
  }
  return {};
}

base::Result<void> bring_back(Gpu& gpu, const Detour& detour) {
  for (std::size_t i = 0; i < detour.outputs.size(); ++i) {
    const auto& out = detour.outputs[i];
    auto copied = gpu.copy(detour.batch.ops[i].output.data, out.data(), out.size(), nullptr);
    if (!copied) return copied;
  }
  return {};
}

}  // namespace

Batch as_host_batch(const Batch& batch) {
  Batch on_host = batch;
  for (Op& op : on_host.ops) op.input.device = op.output.device = -1;
  return on_host;
}

void detour_by_host(Gpu& gpu, Backend& host, Batch batch, Done done) {
  auto detour = std::make_shared<Detour>();
  Batch on_host = as_host_batch(batch);
  detour->batch = std::move(batch);
  if (auto fetched = fetch(gpu, *detour, on_host); !fetched) return done(std::move(fetched));
  host.start(std::move(on_host), [detour, &gpu, done = std::move(done)](base::Result<void> result) {
    done(result ? bring_back(gpu, *detour) : std::move(result));
  });
}

}  // namespace hv::runtime
